"""Attributes of communicators (section 5.7): their keys, and the values that are there from the start (7.1.1)."""

from __future__ import annotations

from typing import Final

from aiompi.attribute import Attributes, CopyFunction, DeleteFunction, Keyvals
from aiompi.constants import (
    ANY_SOURCE,
    APPNUM,
    HOST,
    IO,
    LASTUSEDCODE,
    PROC_NULL,
    TAG_UB,
    UNIVERSE_SIZE,
    WTIME_IS_GLOBAL,
)
from aiompi.errors import last_used_code

__all__ = ["COMMUNICATOR_KEYVALS", "Attributes", "CopyFunction", "DeleteFunction"]

#: The keys for communicators. There is no host process, every process can read and write files, and no more processes
#: can be started than there are; how many programs the job runs is not known, nor how the clocks of machines differ.
COMMUNICATOR_KEYVALS: Final = Keyvals(
    "communicator",
    {
        TAG_UB: lambda comm: TAG_UB,
        HOST: lambda comm: PROC_NULL,
        IO: lambda comm: ANY_SOURCE,
        WTIME_IS_GLOBAL: lambda comm: False,
        UNIVERSE_SIZE: lambda comm: comm._core.engine.size,
        APPNUM: lambda comm: None,
        LASTUSEDCODE: lambda comm: last_used_code(),
    },
)
