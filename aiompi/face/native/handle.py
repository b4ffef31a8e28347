"""What all calls of the native face have in common: they are made in the thread of the event loop."""

from __future__ import annotations

from typing import NoReturn

from aiompi.comm import Communicator
from aiompi.driver.caller import get_ident, name_of_thread
from aiompi.errors import LocalProtocolError
from aiompi.face.common import Membership


class Handle(Membership):
    """A communicator that only one thread may use for communication."""

    __slots__ = ()

    @property
    def _admitted(self) -> Communicator:
        """The communicator, for a call.

        Raises:
            LocalProtocolError: another thread makes it.
        """
        core = self._core
        if get_ident() != core.engine.driver.owner:
            refuse_thread(core)
        return core


def refuse_thread(core: Communicator) -> NoReturn:
    """Refuse the call of a thread that may not make it.

    Raises:
        LocalProtocolError: always.
    """
    raise LocalProtocolError(
        f"{core.where('a call')}: {name_of_thread()} makes it, and this rank belongs to the thread of its event loop. "
        "Have that one call, by loop.call_soon_threadsafe or asyncio.run_coroutine_threadsafe(coroutine, loop)"
    )
