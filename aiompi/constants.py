"""Named constants of MPI-1.1 (annex A.2). Values are ours: the standard fixes only that they are distinct."""

from __future__ import annotations

from typing import Final

__all__ = [
    "ANY_SOURCE", "ANY_TAG", "PROC_NULL", "ROOT", "UNDEFINED", "TAG_UB", "BSEND_OVERHEAD", "MAX_PROCESSOR_NAME",
    "MAX_ERROR_STRING", "IDENT", "CONGRUENT", "SIMILAR", "UNEQUAL", "ORDER_C", "ORDER_FORTRAN", "ORDER_F",
    "DISTRIBUTE_NONE", "DISTRIBUTE_BLOCK", "DISTRIBUTE_CYCLIC", "DISTRIBUTE_DFLT_DARG", "TYPECLASS_INTEGER",
    "TYPECLASS_REAL", "TYPECLASS_COMPLEX", "COMBINER_NAMED", "COMBINER_DUP", "COMBINER_CONTIGUOUS",
    "COMBINER_VECTOR", "COMBINER_HVECTOR", "COMBINER_INDEXED", "COMBINER_HINDEXED", "COMBINER_INDEXED_BLOCK",
    "COMBINER_HINDEXED_BLOCK", "COMBINER_STRUCT", "COMBINER_SUBARRAY", "COMBINER_DARRAY", "COMBINER_RESIZED",
    "COMBINER_VALUE_INDEX", "COMBINER_F90_INTEGER", "COMBINER_F90_REAL", "COMBINER_F90_COMPLEX",
]  # fmt: skip

# Wildcards and special ranks, outside 0..n-1 and 0..TAG_UB (section 2.4.4).
ANY_SOURCE: Final = -1
ANY_TAG: Final = -1
PROC_NULL: Final = -2
ROOT: Final = -3
UNDEFINED: Final = -32766

# Largest legal tag: tags travel as signed 32 bit integers (sections 3.2.3 and 7.1.1).
TAG_UB: Final = 2**31 - 1

BSEND_OVERHEAD: Final = 128
MAX_PROCESSOR_NAME: Final = 256
MAX_ERROR_STRING: Final = 512

# Results of comparisons (sections 5.3.1 and 5.4.1).
IDENT: Final = 0
CONGRUENT: Final = 1
SIMILAR: Final = 2
UNEQUAL: Final = 3

# Order in which the elements of an array lie in memory (section 4.1.3 of MPI-3.1).
ORDER_C: Final = 0
ORDER_FORTRAN: Final = 1
ORDER_F: Final = ORDER_FORTRAN

# Distributions of one dimension of an array over processes (section 4.1.4 of MPI-3.1).
DISTRIBUTE_NONE: Final = 0
DISTRIBUTE_BLOCK: Final = 1
DISTRIBUTE_CYCLIC: Final = 2
DISTRIBUTE_DFLT_DARG: Final = -1

# Classes of types that Match_size knows.
TYPECLASS_INTEGER: Final = 0
TYPECLASS_REAL: Final = 1
TYPECLASS_COMPLEX: Final = 2

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

# Context identifiers (IMPI 0.0, sections 3.3 and 4.3): a communicator owns two, c for point-to-point and
# c + 1 for collectives. COMM_WORLD is 0; COMM_SELF stays outside the numbering of the other communicators.
CONTEXT_WORLD: Final = 0
CONTEXT_SELF: Final = 2**64 - 2
