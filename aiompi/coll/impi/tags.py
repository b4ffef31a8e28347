"""The tags of the messages between clients (IMPI 0.0, section 4.25)."""

from __future__ import annotations

from typing import Final

BARRIER_TAG: Final = 110
BCAST_TAG: Final = 120
GATHER_TAG: Final = 130
GATHERV_TAG: Final = 140
SCATTER_TAG: Final = 150
SCATTERV_TAG: Final = 160
ALLTOALL_TAG: Final = 170
ALLTOALLV_TAG: Final = 180
REDUCE_TAG: Final = 190
SCAN_TAG: Final = 200
DUP_TAG: Final = 210
MERGE_TAG: Final = 220
COMM_FREE_TAG: Final = 230
