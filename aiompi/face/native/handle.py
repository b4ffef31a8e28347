"""Base of the communicators of the asyncio face, whose calls are made in the thread of the event loop."""

from __future__ import annotations

from aiompi.comm import Communicator
from aiompi.face.common import CommunicatorHandle


class Handle(CommunicatorHandle):
    """A communicator that only one thread may use for communication."""

    __slots__ = ()

    @property
    def _admitted(self) -> Communicator:
        """The communicator, for a call.

        Raises:
            LocalProtocolError: the call is made in another thread or event loop.
        """
        return self._core.admitted()
