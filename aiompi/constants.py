"""Named constants of MPI (annex A.2 of MPI-1.1). The standard requires only that the values are distinct."""

from __future__ import annotations

from typing import Final, Self

__all__ = [
    "ANY_SOURCE", "ANY_TAG", "PROC_NULL", "ROOT", "UNDEFINED", "TAG_UB", "BSEND_OVERHEAD", "MAX_PROCESSOR_NAME",
    "MAX_ERROR_STRING", "IDENT", "CONGRUENT", "SIMILAR", "UNEQUAL", "COMM_TYPE_SHARED", "COMM_TYPE_HW_GUIDED",
    "COMM_TYPE_HW_UNGUIDED", "COMM_TYPE_RESOURCE_GUIDED", "ORDER_C", "ORDER_FORTRAN",
    "ORDER_F", "DISTRIBUTE_NONE", "DISTRIBUTE_BLOCK", "DISTRIBUTE_CYCLIC", "DISTRIBUTE_DFLT_DARG",
    "TYPECLASS_INTEGER", "TYPECLASS_REAL", "TYPECLASS_COMPLEX", "TYPECLASS_LOGICAL", "COMBINER_NAMED", "COMBINER_DUP",
    "COMBINER_CONTIGUOUS", "COMBINER_VECTOR", "COMBINER_HVECTOR", "COMBINER_INDEXED", "COMBINER_HINDEXED",
    "COMBINER_INDEXED_BLOCK", "COMBINER_HINDEXED_BLOCK", "COMBINER_STRUCT", "COMBINER_SUBARRAY", "COMBINER_DARRAY",
    "COMBINER_RESIZED", "COMBINER_VALUE_INDEX", "COMBINER_F90_INTEGER", "COMBINER_F90_REAL", "COMBINER_F90_COMPLEX",
    "F_SOURCE", "F_TAG", "F_ERROR", "F_STATUS_SIZE",
    "KEYVAL_INVALID", "HOST", "IO", "WTIME_IS_GLOBAL", "UNIVERSE_SIZE", "APPNUM", "LASTUSEDCODE",
    "IMPI_CLIENT_SIZE", "IMPI_CLIENT_COLOR", "IMPI_HOST_SIZE", "IMPI_HOST_COLOR", "GRAPH", "CART", "DIST_GRAPH",
    "UNWEIGHTED", "WEIGHTS_EMPTY", "MAX_INFO_KEY", "MAX_INFO_VAL", "MAX_LIBRARY_VERSION_STRING",
    "MAX_OBJECT_NAME", "MAX_STRINGTAG_LEN", "MAX_PORT_NAME", "MAX_PSET_NAME_LEN", "MAX_DATAREP_STRING", "THREAD_SINGLE",
    "THREAD_FUNNELED", "THREAD_SERIALIZED", "THREAD_MULTIPLE",
]  # fmt: skip


class Constant(int):
    """A constant that serves as a default argument. Its repr is its name, so that signatures and `help` show the name.

    `str` and format strings show the number, and a pickled constant is a pickled number.
    """

    _name: str

    def __new__(cls, name: str, value: int) -> Self:
        made = super().__new__(cls, value)
        made._name = name
        return made

    def __repr__(self) -> str:
        return self._name

    def __str__(self) -> str:
        return int.__repr__(self)

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        return int, (int(self),)


# Wildcards and special ranks, outside 0..n-1 and 0..TAG_UB (section 2.4.4).
ANY_SOURCE: Final[int] = Constant("ANY_SOURCE", -1)
ANY_TAG: Final[int] = Constant("ANY_TAG", -1)
PROC_NULL: Final[int] = Constant("PROC_NULL", -2)
ROOT: Final[int] = Constant("ROOT", -3)
UNDEFINED: Final[int] = Constant("UNDEFINED", -32766)

# Largest legal tag: tags travel as signed 32 bit integers (sections 3.2.3 and 7.1.1).
TAG_UB: Final = 2**31 - 1

BSEND_OVERHEAD: Final = 128
MAX_PROCESSOR_NAME: Final = 256
MAX_ERROR_STRING: Final = 512
MAX_INFO_KEY: Final = 255
MAX_INFO_VAL: Final = 1024
MAX_LIBRARY_VERSION_STRING: Final = 256
MAX_OBJECT_NAME: Final = 128
MAX_STRINGTAG_LEN: Final = 256
MAX_PORT_NAME: Final = 1024
MAX_PSET_NAME_LEN: Final = 256
MAX_DATAREP_STRING: Final = 128

# Results of comparisons (sections 5.3.1 and 5.4.1).
IDENT: Final = 0
CONGRUENT: Final = 1
SIMILAR: Final = 2
UNEQUAL: Final = 3

# Split types of MPI_Comm_split_type (section 6.4.2 of MPI-3.1).
COMM_TYPE_SHARED: Final = 1
COMM_TYPE_HW_GUIDED: Final = 2
COMM_TYPE_HW_UNGUIDED: Final = 3
COMM_TYPE_RESOURCE_GUIDED: Final = 4

# Order in which the elements of an array lie in memory (section 4.1.3 of MPI-3.1).
ORDER_C: Final[int] = Constant("ORDER_C", 0)
ORDER_FORTRAN: Final = 1
ORDER_F: Final = ORDER_FORTRAN

# Distributions of one dimension of an array over processes (section 4.1.4 of MPI-3.1).
DISTRIBUTE_NONE: Final = 0
DISTRIBUTE_BLOCK: Final = 1
DISTRIBUTE_CYCLIC: Final = 2
DISTRIBUTE_DFLT_DARG: Final = -1

# Type classes of Match_size.
TYPECLASS_INTEGER: Final = 0
TYPECLASS_REAL: Final = 1
TYPECLASS_COMPLEX: Final = 2
TYPECLASS_LOGICAL: Final = 3

# How a datatype was made (section 4.1.13 of MPI-3.1).
COMBINER_NAMED: Final = 0
COMBINER_DUP: Final = 1
COMBINER_CONTIGUOUS: Final = 2
COMBINER_VECTOR: Final = 3
COMBINER_HVECTOR: Final = 4
COMBINER_INDEXED: Final = 5
COMBINER_HINDEXED: Final = 6
COMBINER_INDEXED_BLOCK: Final = 7
COMBINER_HINDEXED_BLOCK: Final = 8
COMBINER_STRUCT: Final = 9
COMBINER_SUBARRAY: Final = 10
COMBINER_DARRAY: Final = 11
COMBINER_RESIZED: Final = 12
COMBINER_VALUE_INDEX: Final = 13
COMBINER_F90_INTEGER: Final = 14
COMBINER_F90_REAL: Final = 15
COMBINER_F90_COMPLEX: Final = 16

# Keys of the predefined attributes (section 7.1.1). The key of the largest tag, TAG_UB, is the largest tag itself, so
# that TAG_UB can be used both as in mpi4py's `comm.Get_attr(TAG_UB)` and as a tag.
KEYVAL_INVALID: Final = -1
HOST: Final = 1
IO: Final = 2
WTIME_IS_GLOBAL: Final = 3
UNIVERSE_SIZE: Final = 4
APPNUM: Final = 5
LASTUSEDCODE: Final = 6

# Keys of the attributes of IMPI 0.0, section 2.5.
IMPI_CLIENT_SIZE: Final = 7
IMPI_CLIENT_COLOR: Final = 8
IMPI_HOST_SIZE: Final = 9
IMPI_HOST_COLOR: Final = 10

# Kinds of topologies (section 6.5.4), and special weights of a distributed graph (section 7.5.4 of MPI-3.1).
GRAPH: Final = 1
CART: Final = 2
DIST_GRAPH: Final = 3
UNWEIGHTED: Final = 1
WEIGHTS_EMPTY: Final = 2

# Thread levels in rising order (section 12.4.3 of MPI-3.1).
THREAD_SINGLE: Final = 0
THREAD_FUNNELED: Final = 1
THREAD_SERIALIZED: Final = 2
THREAD_MULTIPLE: Final[int] = Constant("THREAD_MULTIPLE", 3)

# Indices of the fields of a status in a list of integers (section 3.2.5).
F_SOURCE: Final = 0
F_TAG: Final = 1
F_ERROR: Final = 2
F_STATUS_SIZE: Final = 6

# Context identifiers (IMPI 0.0, sections 3.3 and 4.3): a communicator owns two, c for point-to-point and
# c + 1 for collectives. COMM_WORLD is 0; COMM_SELF stays outside the numbering of the other communicators.
CONTEXT_WORLD: Final = 0
CONTEXT_SELF: Final = 2**64 - 2
