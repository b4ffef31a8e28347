"""Named constants of MPI-1.1 (annex A.2). Values are ours: the standard fixes only that they are distinct."""

from __future__ import annotations

from typing import Final

__all__ = [
    "ANY_SOURCE", "ANY_TAG", "PROC_NULL", "ROOT", "UNDEFINED", "TAG_UB", "BSEND_OVERHEAD", "MAX_PROCESSOR_NAME",
    "MAX_ERROR_STRING", "IDENT", "CONGRUENT", "SIMILAR", "UNEQUAL",
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

# Context identifiers (IMPI 0.0, sections 3.3 and 4.3): a communicator owns two, c for point-to-point and
# c + 1 for collectives. COMM_WORLD is 0; COMM_SELF stays outside the numbering of the other communicators.
CONTEXT_WORLD: Final = 0
CONTEXT_SELF: Final = 2**64 - 2
