"""`Origin`: sends requests to the other ranks of a window, and waits for their completion (MPI-4.1, section 12.5.4)."""

from __future__ import annotations

import itertools
from collections.abc import Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from aiompi.base.unsupported_errors import ERR_RMA_RANGE, ERR_WIN
from aiompi.comm import Communicator
from aiompi.core import WindowBase
from aiompi.core.allocation import allocate
from aiompi.core.pure.recorder import ANSWER
from aiompi.datatype import Buffer
from aiompi.engine import Request
from aiompi.errors import RevokedError, WindowError
from aiompi.window.messages import ANSWERS, OUTSIDE, REQUESTS, Kind, request

if TYPE_CHECKING:
    from aiompi.status import Status

T = TypeVar("T")


class Origin(WindowBase):
    """The part of a window that sends requests to targets, and waits for their answers.

    Args:
        comm: a duplicate of the communicator of the window, for its messages alone.
        parent: the communicator of the window.

    Attributes:
        comm, parent: as above.
        freed: True once the window has been freed.
        name: of the window.
        unflushed: ranks to which this rank has sent, since the last flush, requests that get no answer.
        pending: operations on each rank that are not complete, or have failed.
        accessed: True once this rank has accessed the memory of any rank since the last fence.
    """

    __slots__ = ("_answers", "freed", "name", "parent")

    comm: Communicator

    def __init__(self, comm: Communicator, parent: Communicator) -> None:
        self.comm, self.parent = comm, parent
        self.freed = False
        self.name = ""
        self.unflushed = set()
        self.pending = {}
        self.accessed = False
        self._answers = itertools.cycle(range(REQUESTS + 1, ANSWERS))

    @property
    def label(self) -> str:
        """The window in words."""
        return f"{self.name or 'a window'} of {self.parent.label}"

    def where(self, operation: str) -> str:
        """Return the operation, the window and this rank, for error messages."""
        return f"{operation} on {self.label}, rank {self.comm.rank}"

    def check(self, operation: str) -> None:
        """Check that the window can be used.

        Raises:
            WindowError: it has been freed.
            RevokedError: its communicator is revoked.
        """
        if self.freed:
            raise WindowError(f"{self.where(operation)}: the window has been freed", ERR_WIN)
        if self.parent.is_revoked:
            raise RevokedError(f"{self.where(operation)}: its communicator is revoked")

    def error_of(self, rank: int) -> Exception | None:
        """Return the error of a rank that is known to have failed; None for any other rank."""
        return self.comm.engine.failure.error_of(self.comm.targets[rank])

    def check_alive(self, ranks: Iterable[int]) -> None:
        """Check that no rank among these is known to have failed.

        Raises:
            ProcessFailedError: one has failed.
        """
        failed = self.comm.engine.failure.error_among(map(self.comm.targets.__getitem__, ranks))
        if failed is not None:
            raise failed

    def run(self, coroutine: Coroutine[Any, None, T], call: str = "") -> Request[T]:
        """Start the coroutine of an operation for a call."""
        request = self.comm.run(coroutine, call)
        request.owner = self
        return request

    # The records of the trace, if this rank has one.

    def record(self, kind: int, rank: int, tag: int = 0, nbytes: int = 0) -> int:
        """Begin the trace record of an operation with a rank; return the handle of the record, 0 without a trace."""
        recorder, comm = self.comm.engine.recorder, self.comm
        return 0 if recorder is None else recorder.start(kind, comm.context_id, comm.process_of(rank), tag, nbytes)

    def recorded(self, handle: int, way: int = 0) -> None:
        """Record the end of an operation in its record."""
        if handle and self.comm.engine.recorder is not None:
            self.comm.engine.recorder.end(handle, way)

    def nothing(self) -> Request[None]:
        """Return the request of an operation that is complete."""
        return self.comm.engine.completed_send

    # Messages.

    def _send(self, rank: int, kind: Kind, *arguments: Any, data: Any = ()) -> Request[None]:
        """Send a target a request without an answer; a flush waits until the request is done."""
        self.unflushed.add(rank)
        send = self.comm.isend(*request(kind, 0, *arguments, data=data), rank, REQUESTS)
        self._note(rank, send)
        return send

    def tell(self, rank: int, kind: Kind, *arguments: Any) -> None:
        """Send a notice to a rank. The notice has no answer, and no call awaits its send."""
        self.comm.engine.disown(self.comm.isend(*request(kind, 0, *arguments), rank, REQUESTS))

    def ask(self, rank: int, memory: memoryview, kind: Kind, *arguments: Any, data: Any = ()) -> Request[Any]:
        """Ask a target for an answer, which goes into memory."""
        tag = next(self._answers)
        recorder = self.comm.engine.recorder
        if recorder is not None:
            recorder.word = recorder.naming.word(ANSWER)
        answer = self.comm.irecv(memory, rank, tag)
        self.comm.engine.disown(self.comm.isend(*request(kind, tag, *arguments, data=data), rank, REQUESTS))
        return answer

    def _fetch(self, rank: int, into: Buffer, kind: Kind, *arguments: Any, data: Any = ()) -> Request[None]:
        """Ask a target for the content of a buffer."""
        message = into.view if into.contiguous else allocate(into.nbytes)
        answer = self.ask(rank, message, kind, *arguments, data=data)

        async def fetch() -> None:
            status: Status = await answer
            if status.nbytes != into.nbytes:
                raise self._outside(rank, arguments[0])
            if not into.contiguous:
                into.unpack(message)

        fetched = self.run(fetch())
        self._note(rank, fetched)
        return fetched

    def _outside(self, rank: int, first: int, end: int | None = None) -> WindowError:
        """Return the error of an access to memory that is not attached at its target."""
        where = f"at {first:#x}" if end is None else f"from {first:#x} to {end:#x}"
        return WindowError(
            f"{self.where('an access')}: rank {rank} has attached no memory {where}; nothing there has changed",
            ERR_RMA_RANGE,
        )

    def _note(self, rank: int, operation: Request[Any]) -> None:
        """Remember an operation until it is complete. One that fails is remembered until the next flush."""
        if operation.done() and operation._error is None:
            return
        pending = self.pending.setdefault(rank, set())
        pending.add(operation)
        if not operation.done():
            operation.when_done(lambda done: pending.discard(done) if done._error is None else None)

    async def complete_locally(self, ranks: Iterable[int]) -> None:
        """Wait until the buffers of the operations on these ranks may be used again (MPI_Win_flush_local).

        Raises:
            WindowError: an operation has failed, and no call has raised its error yet.
        """
        wrong: WindowError | None = None
        for rank in ranks:
            pending = self.pending.get(rank, set())
            for operation in [*pending]:
                seen = operation.done() and operation.unseen_error() is None
                try:
                    await operation
                except WindowError as error:
                    wrong = error if wrong is None and not seen else wrong
                finally:
                    pending.discard(operation)
        if wrong is not None:
            raise wrong

    async def complete(self, ranks: Sequence[int]) -> None:
        """Wait until the operations on these ranks are done at the targets (MPI_Win_flush, section 12.5.4).

        Raises:
            ProcessFailedError: one of these ranks has failed.
            WindowError: an operation has failed, and no call has raised its error yet. All other operations are done.
        """
        self.check_alive(ranks)
        asked = [rank for rank in ranks if rank in self.unflushed]
        self.unflushed.difference_update(asked)
        memory = [bytearray(OUTSIDE.size) for _ in asked]
        answers = [self.ask(rank, memoryview(place), Kind.FLUSH) for rank, place in zip(asked, memory, strict=True)]
        wrong: WindowError | None = None
        try:
            await self.complete_locally(ranks)
        except WindowError as error:
            wrong = error
        for rank, place, answer in zip(asked, memory, answers, strict=True):
            status: Status = await answer
            if status.nbytes and wrong is None:
                wrong = self._outside(rank, *OUTSIDE.unpack(place))
        if wrong is not None:
            raise wrong

    @property
    def at_rest(self) -> bool:
        """True if all operations of this rank are done at their targets."""
        return not self.unflushed and not any(self.pending.values())
