"""`Record`: the record of one call of `aiompi.talk` in the trace of a rank, such as a call of a handler."""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

from aiompi.comm import Communicator
from aiompi.core import Recorder
from aiompi.core.pure.recorder import FAILED, TALK

#: characters of the name of a handler, topic or dict that a trace shows
_SHOWN: Final = 100


class Unrecorded:
    """The record of a call if the rank records no trace; base class of records. A context manager around the call."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pass

    def awaits(self) -> None:
        """Record that the program waits from now on."""

    def meets(self, rank: int | None) -> None:
        """Record the member whose message the call waits for or has got; None for a member that is gone."""


UNRECORDED: Final = Unrecorded()


class Record(Unrecorded):
    """The record of one call.

    Args:
        core: communicator of the talk.
        recorder: of this rank.
        tag: CALL, PUBLISH, SUBSCRIBE or WRITE of `aiompi.core.pure.recorder`.
        name: of the handler, topic or dict.
    """

    __slots__ = ("_core", "_handle", "_recorder")

    def __init__(self, core: Communicator, recorder: Recorder, tag: int, name: str) -> None:
        self._core, self._recorder = core, recorder
        recorder.word = recorder.naming.word(name[:_SHOWN])
        self._handle = recorder.start(TALK, core.context_id, -1, tag, 0)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Record the end of the call. The end of a subscription is no failure."""
        self._recorder.end(self._handle, 0 if kind is None or kind is StopAsyncIteration else FAILED)

    def awaits(self) -> None:
        self._recorder.awaits(self._handle)

    def meets(self, rank: int | None) -> None:
        self._recorder.meets(self._handle, -1 if rank is None else self._core.process_of(rank))
