"""The target's side of requests: the server runs whenever the engine of its rank runs, inside any call.

Every request is checked as if its sender were hostile. A sender can read and write the window, and nothing else. A
request that is wrong ends the connection to its sender.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from aiompi.constants import ANY_SOURCE
from aiompi.core.allocation import allocate
from aiompi.datatype import Datatype
from aiompi.datatype.handle import PREDEFINED
from aiompi.engine.blame import cause_of
from aiompi.errors import MPIError, ProcessFailedPendingError, RemoteProtocolError
from aiompi.window.messages import GRANTED, LOCK_ANSWER, OUTSIDE, REQUESTS, Kind, parsed
from aiompi.window.target import OPERATIONS, Accessor, Area

if TYPE_CHECKING:
    from aiompi.window.window import Window


#: no address is as large
_MOST: Final = 2**63 - 1


class OutsideError(Exception):
    """Another rank has asked for memory that is not attached to a dynamic window.

    Args:
        first, end: positions of the first requested byte, and of the byte after the last requested byte.
    """

    def __init__(self, first: int, end: int) -> None:
        super().__init__(first, end)
        self.bounds = min(max(first, -_MOST), _MOST), min(max(end, -_MOST), _MOST)


class Server:
    """Serves the requests of other ranks for the memory of this one.

    Args:
        window: the window.
    """

    __slots__ = ("_actions", "_holders", "_outside", "_receive", "_window")

    def __init__(self, window: Window) -> None:
        self._window = window
        self._receive: Any = None
        self._holders: dict[int, bool] = {}  # ranks that hold the lock by messages, and whether alone
        self._outside: dict[int, tuple[int, int]] = {}  # by rank, its first access to memory that is not attached
        self._actions: Final[dict[Kind, Callable[..., None]]] = {
            Kind.PUT: self._put,
            Kind.GET: self._get,
            Kind.COMBINE: self._combine,
            Kind.SWAP: self._swap,
            Kind.FLUSH: self._flush,
            Kind.LOCK: self._lock,
            Kind.UNLOCK: self._unlock,
            Kind.WAKE: self._wake,
            Kind.POST: self._post,
            Kind.COMPLETE: self._complete,
        }

    def start(self) -> None:
        """Serve all requests that have come, and wait for the next request."""
        while not self._window.freed:
            try:
                receive = self._window.comm.irecv(None, ANY_SOURCE, REQUESTS)
            except MPIError:
                return  # the job has ended
            receive.stay()
            self._receive = receive
            if not receive.done():
                receive.when_done(self._came)
                return
            if not self._serve(receive):
                return

    def stop(self) -> None:
        """Serve nothing any more."""
        if self._receive is not None:
            self._receive.cancel()

    def _came(self, receive: Any) -> None:
        if self._serve(receive):
            self.start()

    def _serve(self, receive: Any) -> bool:
        """Serve one request; return False if the caller must not post the next receive."""
        error = receive.exception() if not receive.cancelled() else None
        if receive.cancelled() or self._window.freed:
            return False
        if isinstance(error, ProcessFailedPendingError):
            comm = self._window.comm
            comm.engine.failure.acknowledge(comm.matcher, comm.engine.failure.failed)
            self._member_failed()
            if not receive.done():
                receive.when_done(self._came)
                return False
            return True
        if error is not None:
            self._window.epochs.ended(error)
            return False
        source, message = receive.source, memoryview(receive.data or b"")
        try:
            kind, answer, arguments, data = parsed(message)
            self._actions[kind](source, answer, arguments, data)
        except OutsideError as outside:
            if answer:
                self._answer(source, answer, b"")
            else:
                self._outside.setdefault(source, outside.bounds)
        except Exception as wrong:  # whatever a request leads to, the others are served
            self._refuse(source, wrong)
        return True

    def _member_failed(self) -> None:
        """Let waiting calls of this rank check for the failure; wake the ranks that wait for a failed holder's lock."""
        epochs, own = self._window.epochs, self._window.own
        epochs.member_failed()
        if own.lock is not None and epochs.locks.failed_holder(own.lock) is not None:
            epochs.locks.wake_waiting(self._window.comm.rank, own.lock)

    def _refuse(self, source: int, wrong: Exception) -> None:
        """End the connection to a rank that has broken the protocol."""
        peer: Any = self._window.comm.reached(source)
        if peer is not None:
            peer.break_off(cause_of(wrong))

    def _answer(self, source: int, tag: int, message: memoryview | bytes) -> None:
        """Send an answer."""
        comm = self._window.comm
        try:
            comm.engine.disown(comm.isend((message,), len(message), source, tag))
        except MPIError:
            return  # it has failed meanwhile

    # The actions.

    def _memory(self, area: Area) -> tuple[Accessor, Area]:
        """Return the memory that has an area, and the area in it.

        Raises:
            OutsideError: the window is dynamic, and no attached memory has the area.
            RemoteProtocolError: the area lies outside of the window, although the other rank knows the window's size.
        """
        window = self._window
        found: tuple[Accessor, Area] | None
        accessor = window.own.accessor
        if accessor is None:
            found = window.attached.find(area)
        else:
            found = (accessor, area) if area.within(accessor.memory.nbytes) else None
        if found is None:
            first, end = area.bounds
            if accessor is None:
                raise OutsideError(first, end)
            raise RemoteProtocolError(f"it has asked for the bytes {first} to {end}, which are not in the window")
        return found

    def _put(self, source: int, answer: int, arguments: list[Any], data: memoryview) -> None:
        accessor, area = self._memory(Area.unpacked(*arguments))
        if data.nbytes != area.nbytes:
            raise RemoteProtocolError(f"{data.nbytes} bytes are to be written to {area.nbytes}")
        accessor.write(area, data)

    def _get(self, source: int, answer: int, arguments: list[Any], data: memoryview) -> None:
        accessor, area = self._memory(Area.unpacked(*arguments))
        message = allocate(area.nbytes)
        accessor.read(area, message)
        self._answer(source, answer, message)

    def _combine(self, source: int, answer: int, arguments: list[Any], data: memoryview) -> None:
        *described, number, name, given, fetched = arguments
        accessor, area = self._memory(Area.unpacked(*described))
        basic = PREDEFINED[name]
        if type(number) is not int or not 1 <= number < len(OPERATIONS) or not isinstance(basic, Datatype):
            raise RemoteProtocolError(f"{number!r} is no operation on {name!r}")
        self._check_operation(number, basic, area)
        if not (given or fetched) or data.nbytes != (area.nbytes if given else 0):
            raise RemoteProtocolError(f"{data.nbytes} bytes are to be combined with {area.nbytes}")
        message = data if given else None
        before = allocate(area.nbytes) if fetched else None
        if not accessor.combine(area, number, basic, message, before):
            accessor.combine_alone(area, number, basic, message, before)
        if before is not None:
            self._answer(source, answer, before)

    @staticmethod
    def _check_operation(number: int, basic: Datatype, area: Area) -> None:
        op = OPERATIONS[number]
        assert op is not None
        if op.name not in ("MPI_REPLACE", "MPI_NO_OP"):
            op.check(basic)
        if not basic.size or area.nbytes % basic.size:
            raise RemoteProtocolError(f"{area.nbytes} bytes are no whole number of {basic}")

    def _swap(self, source: int, answer: int, arguments: list[Any], data: memoryview) -> None:
        start, nbytes = arguments
        accessor, area = self._memory(Area.unpacked(start, nbytes, b""))
        if data.nbytes != 2 * area.nbytes or area.nbytes > 64:
            raise RemoteProtocolError(f"{data.nbytes} bytes are not two elements of {area.nbytes}")
        message, expected, before = data[: area.nbytes], data[area.nbytes :], allocate(area.nbytes)
        if not accessor.swap(area.start, message, expected, before):
            accessor.swap_alone(area.start, message, expected, before)
        self._answer(source, answer, before)

    def _flush(self, source: int, answer: int, arguments: list[Any], data: memoryview) -> None:
        outside = self._outside.pop(source, None)
        self._answer(source, answer, b"" if outside is None else OUTSIDE.pack(*outside))

    def _lock(self, source: int, answer: int, arguments: list[Any], data: memoryview) -> None:
        (exclusive,) = arguments
        lock = self._window.own.lock
        assert lock is not None
        if source in self._holders:
            raise RemoteProtocolError("it has asked for a lock that it holds")
        granted = self._window.epochs.locks.granted(lock, source, exclusive=bool(exclusive))
        if granted == GRANTED:
            self._holders[source] = bool(exclusive)
        self._answer(source, answer, LOCK_ANSWER.pack(granted))

    def _unlock(self, source: int, answer: int, arguments: list[Any], data: memoryview) -> None:
        lock = self._window.own.lock
        assert lock is not None
        self._window.epochs.locks.release(self._window.comm.rank, lock, source, exclusive=self._holders.pop(source))
        self._answer(source, answer, b"")

    def _wake(self, source: int, answer: int, arguments: list[Any], data: memoryview) -> None:
        (rank,) = arguments
        self._window.epochs.locks.wake(rank)

    def _post(self, source: int, answer: int, arguments: list[Any], data: memoryview) -> None:
        self._window.epochs.posted.add(source)

    def _complete(self, source: int, answer: int, arguments: list[Any], data: memoryview) -> None:
        self._window.epochs.completed.add(source)
