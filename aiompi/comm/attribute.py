"""Attributes of communicators (section 5.7): the predefined keys and their values (section 7.1.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from aiompi.base.attribute import Attributes, CopyFunction, DeleteFunction, Keyvals
from aiompi.comm.placement import Colors
from aiompi.constants import (
    ANY_SOURCE,
    APPNUM,
    HOST,
    IMPI_CLIENT_COLOR,
    IMPI_CLIENT_SIZE,
    IMPI_HOST_COLOR,
    IMPI_HOST_SIZE,
    IO,
    LASTUSEDCODE,
    PROC_NULL,
    TAG_UB,
    UNIVERSE_SIZE,
    WTIME_IS_GLOBAL,
)
from aiompi.errors import last_used_code

if TYPE_CHECKING:
    from aiompi.comm.communicator import Communicator

__all__ = ["COMMUNICATOR_KEYVALS", "Attributes", "CopyFunction", "DeleteFunction"]


def _clients(comm: Any) -> Colors:
    core: Communicator = comm._core
    return Colors.of(core.placement.clients, core.placement.clients[core.rank])


def _hosts(comm: Any) -> Colors:
    core: Communicator = comm._core
    return Colors.of(core.placement.hosts, core.placement.hosts[core.rank])


#: The keys for communicators. There is no host process, every process can read and write files, and the
#: differences between the clocks of machines are not known.
#: The keys of IMPI 0.0 (section 2.5) count the clients and hosts of both groups of an intercommunicator.
COMMUNICATOR_KEYVALS: Final = Keyvals(
    "communicator",
    {
        TAG_UB: lambda comm: comm._core.tag_ub,
        HOST: lambda comm: PROC_NULL,
        IO: lambda comm: ANY_SOURCE,
        WTIME_IS_GLOBAL: lambda comm: 0,
        UNIVERSE_SIZE: lambda comm: comm._core.session.universe_size,
        APPNUM: lambda comm: comm._core.session.appnum,
        LASTUSEDCODE: lambda comm: last_used_code(),
        IMPI_CLIENT_SIZE: lambda comm: _clients(comm).size,
        IMPI_CLIENT_COLOR: lambda comm: _clients(comm).color,
        IMPI_HOST_SIZE: lambda comm: _hosts(comm).size,
        IMPI_HOST_COLOR: lambda comm: _hosts(comm).color,
    },
)
