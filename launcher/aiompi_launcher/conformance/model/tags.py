"""Tags of the collectives (section 4.25)."""

from typing import Final

BARRIER: Final = 110
BCAST: Final = 120
GATHER: Final = 130
GATHERV: Final = 140
SCATTER: Final = 150
SCATTERV: Final = 160
ALLTOALL: Final = 170
ALLTOALLV: Final = 180
REDUCE: Final = 190
SCAN: Final = 200
DUP: Final = 210
MERGE: Final = 220
FREE: Final = 230

NAMES: Final = {value: name for name, value in dict(vars()).items() if isinstance(value, int)}
