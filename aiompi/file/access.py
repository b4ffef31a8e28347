"""Accesses: how a file is read and written (MPI-4.1, section 14.4)."""

from __future__ import annotations

import contextlib
import functools
import struct
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from aiompi.base.arguments import integer
from aiompi.base.unsupported_errors import ERR_ACCESS, ERR_NOT_SAME, ERR_READ_ONLY, ERR_UNSUPPORTED_OPERATION
from aiompi.comm import Channel, Communicator
from aiompi.comm.errhandler import ERRORS_RETURN, Errhandler
from aiompi.core.allocation import allocate
from aiompi.datatype import Buffer, resolve_recv, resolve_send
from aiompi.engine import Request
from aiompi.errors import FileError, InvalidArgumentError, LocalProtocolError, MPIError
from aiompi.file import transfer
from aiompi.file.aggregation import Pieces
from aiompi.file.collective import CollectiveAccess
from aiompi.file.disk import Disk
from aiompi.file.failures import agree, fail, of_cause
from aiompi.file.hints import Hints
from aiompi.file.locks import locked
from aiompi.file.modes import LARGEST, MODE_RDONLY, MODE_SEQUENTIAL, MODE_WRONLY, POINTER
from aiompi.file.operation import Operation
from aiompi.file.shared import SharedPointer
from aiompi.file.transfer import Stop, Stream
from aiompi.file.view import View
from aiompi.status import Status

T = TypeVar("T")

#: `transfer.read` or `transfer.write`
Transfer: TypeAlias = Callable[[int, Pieces, Stream, Stop], int]
#: the steps of a collective operation
Steps: TypeAlias = Callable[[Channel], Coroutine[Any, None, T]]

_NUMBER: Final = struct.Struct("<q")


class Access:
    """Reads and writes of a file.

    Args:
        comm: communicator of the file alone.
        path: of the file.
        amode: mode of access.
        fd: descriptor; the file closes it.
        shared: the shared pointer.

    Attributes:
        comm, path, amode, shared: as above.
        hints: hints of the program.
        view: what this process sees.
        position: of the pointer of this process, in elementary types.
        atomic: True if accesses of different processes happen one after the other.
        errhandler: handler called when a call fails.
        disk: threads of this rank.
    """

    def __init__(self, comm: Communicator, path: str, amode: int, fd: int, shared: SharedPointer) -> None:
        self.comm, self.path, self.amode, self.shared = comm, path, amode, shared
        self._fd: int | None = fd
        self.hints = Hints()
        self.view = View()
        self.position = shared.start
        self.atomic = False
        self.errhandler: Errhandler = ERRORS_RETURN
        self.disk = Disk.of(comm.engine)
        self._mutex = threading.Lock()
        self._split: tuple[str, Operation] | None = None

    @property
    def fd(self) -> int:
        """Descriptor of the open file."""
        assert self._fd is not None
        return self._fd

    def where(self, name: str) -> str:
        """Return the call, the file and this rank, for messages."""
        return self.comm.where(name)  # the communicator has the name of the file

    # Accesses.

    def independent(self, spec: object, offset: object, *, writing: bool, at_once: bool = False) -> Request[Status]:
        """Start an access of this process alone.

        Args:
            spec: buffer specification.
            offset: position in elementary types; POINTER for the pointer of this process, which the call advances at
                once.
            writing: True to write, False to read.
            at_once: True if the caller does nothing else until the access has ended.

        Returns:
            The request, whose result is the status. Awaiting the request raises the error of the access.
        """
        name = "File_write" if writing else "File_read"
        self.check_positions(name)
        buffer, nbytes = self._resolve(spec, name, writing)
        start = self._start(offset, nbytes, name)
        view, stop = self.view, Stop()
        work = lambda: self.move(view, start, buffer, stop, writing)  # noqa: E731
        return self._alone(name, work, nbytes, stop, at_once=at_once)

    def by_shared_pointer(self, spec: object, *, writing: bool, at_once: bool = False) -> Request[Status]:
        """Start an access of this process at the shared pointer, and advance it (section 14.4.4); see `independent`."""
        name = "File_write_shared" if writing else "File_read_shared"
        buffer, nbytes = self._resolve(spec, name, writing)
        view, stop = self.view, Stop()

        def work() -> int:
            start = self.shared.advance(nbytes // view.unit) * view.unit
            self.check_end(view, start, nbytes, name)
            return self.move(view, start, buffer, stop, writing)

        return self._alone(name, work, nbytes, stop, at_once=at_once)

    def collective(self, spec: object, offset: object, *, writing: bool, at_once: bool = False) -> Operation:
        """Start a collective access, which all processes make; see `independent`. The request raises all errors."""
        name = "File_write_all" if writing else "File_read_all"

        def prepare() -> Steps[int]:
            self.check_positions(name)
            buffer, nbytes = self._resolve(spec, name, writing)
            before = self.position
            start = self._start(offset, nbytes, name)
            after = self.position
            call = CollectiveAccess(self, name, buffer, nbytes, writing=writing, at_once=at_once)

            async def run(channel: Channel) -> int:
                try:
                    return await call.run(channel, start)
                finally:
                    if not call.begun and self.position == after:
                        self.position = before

            return run

        return self._operation(self._awaited(self.together(name, prepare)), None)

    def ordered(self, spec: object, *, writing: bool, at_once: bool = False) -> Operation:
        """Start an access of all processes at the shared pointer, in rank order (section 14.4.4); see `collective`."""
        name = "File_write_ordered" if writing else "File_read_ordered"

        def prepare() -> Steps[int]:
            buffer, nbytes = self._resolve(spec, name, writing)
            unit = self.view.unit
            call = CollectiveAccess(self, name, buffer, nbytes, writing=writing, at_once=at_once)

            async def run(channel: Channel) -> int:
                told = await agree(channel, None, _NUMBER.pack(nbytes // unit))
                units = [_NUMBER.unpack(data)[0] for data in told]
                before = [0]
                work = lambda: before.append(self.shared.advance(sum(units)))  # noqa: E731
                error = await self.attempt(work, name) if channel.rank == 0 else None
                base = _NUMBER.unpack((await agree(channel, error, _NUMBER.pack(before[-1])))[0])[0]
                return await call.run(channel, (base + sum(units[: channel.rank])) * unit)

            return run

        return self._operation(self._awaited(self.together(name, prepare)), None)

    # Split collectives (section 14.4.5).

    def begin(self, name: str, start: Callable[[], Operation]) -> None:
        """Begin a split collective. Until its end, no other split collective and no other collective call may begin.

        Args:
            name: the name that `end` is to give.
            start: starts the operation.
        """
        operation = start()  # also after an error, so that the other processes learn of it
        self._check_split(name + "_begin")
        self._split = name, operation

    def end(self, name: str) -> Operation:
        """Return the operation of a split collective, for which the caller waits."""
        begun, operation = self._split or ("", None)
        if operation is None or begun != name:
            other = f"; {begun}_begin was, whose end is {begun}_end" if begun else ""
            raise LocalProtocolError(f"{self.where(name + '_end')}: {name}_begin was not called before{other}")
        self._split = None
        return operation

    def _check_split(self, name: str) -> None:
        if self._split is not None:
            begun = self._split[0]
            raise LocalProtocolError(
                f"{self.where(name)}: {begun}_begin has no {begun}_end yet, and no other collective call on the file "
                "may come before"
            )

    # Parts.

    def check_positions(self, name: str) -> None:
        """Refuse a call that needs positions on a file opened with MODE_SEQUENTIAL.

        Raises:
            FileError: ERR_UNSUPPORTED_OPERATION.
        """
        if self.amode & MODE_SEQUENTIAL:
            raise FileError(
                f"{self.where(name)}: the file was opened with MODE_SEQUENTIAL: use the shared pointer",
                ERR_UNSUPPORTED_OPERATION,
            )

    def check_same(self, told: Sequence[bytes], what: str) -> None:
        """Check that all processes have given the same value.

        Raises:
            FileError: ERR_NOT_SAME.
        """
        if any(data != told[0] for data in told):
            raise FileError(f"{self.where(what)} is not the same in all processes", ERR_NOT_SAME)

    def _resolve(self, spec: object, name: str, writing: bool) -> tuple[Buffer, int]:
        if writing and self.amode & MODE_RDONLY:
            raise FileError(f"{self.where(name)}: the file was opened with MODE_RDONLY", ERR_READ_ONLY)
        if not writing and self.amode & MODE_WRONLY:
            raise FileError(f"{self.where(name)}: the file was opened with MODE_WRONLY", ERR_ACCESS)
        buffer = resolve_send(spec, "buf") if writing else resolve_recv(spec, "buf")
        return buffer, self.view.nbytes(buffer)

    def _start(self, offset: object, nbytes: int, name: str) -> int:
        """Return the byte of the stream where an access begins; an access at the pointer advances the pointer."""
        at = self.position if offset is POINTER else integer(offset, "offset")
        if not 0 <= at <= LARGEST:
            raise InvalidArgumentError(f"{self.where(name)}: offset is {at}: expected 0 to 2**63 - 1")
        self.check_end(self.view, at * self.view.unit, nbytes, name)
        if offset is POINTER:
            self.position += nbytes // self.view.unit
        return at * self.view.unit

    def check_end(self, view: View, start: int, nbytes: int, name: str) -> None:
        """Check that an access ends before the largest offset of files.

        Raises:
            InvalidArgumentError: the access reaches farther.
        """
        if nbytes and (last := view.position(start + nbytes - 1)) >= LARGEST:
            raise InvalidArgumentError(
                f"{self.where(name)}: the access reaches to byte {last} of the file: files end before byte 2**63 - 1"
            )

    def _alone(self, name: str, work: Callable[[], int], nbytes: int, stop: Stop, *, at_once: bool) -> Request[Status]:
        """Start an access of this process alone. It runs in this thread if no event loop or other thread waits."""
        running = self.disk.run(work, nbytes=nbytes, at_once=at_once)
        if not running.done():
            return self._operation(self._done(name, running), stop)
        request: Request[Status] = Request(self.comm.engine)
        error = running.exception()
        if error is None:
            request.complete(Status.of(nbytes=running.result(), external=self.view.external))
        else:
            request.fail(of_cause(error, self.where(name)))
        return request

    def _operation(self, coroutine: Coroutine[Any, None, int], stop: Stop | None) -> Operation:
        return Operation(self.comm, coroutine, stop, self.view.external)

    async def _awaited(self, request: Request[T]) -> T:
        return await request

    async def _done(self, name: str, running: Request[T]) -> T:
        """Return the result of a function that runs in a thread; raise its failure as an MPI error."""
        try:
            return await running
        except Exception as error:
            failure = of_cause(error, self.where(name))
            raise failure from failure.__cause__

    async def attempt(self, work: Callable[[], object], name: str) -> MPIError | None:
        """Call a function in a thread; return its failure as an MPI error."""
        try:
            await self.disk.run(work, at_once=True)
        except Exception as error:
            return of_cause(error, self.where(name))
        return None

    def in_thread(self, name: str, work: Callable[[], T], *, at_once: bool = False) -> Request[T]:
        """Start an operation of this process alone: call a function in a thread."""
        return self.comm.run(self._done(name, self.disk.run(work, at_once=at_once)))

    def together(self, name: str, prepare: Callable[[], Steps[T]]) -> Request[T]:
        """Start a collective operation. If this process cannot start it, the operation fails in all processes.

        Args:
            name: of the call.
            prepare: checks the arguments, and returns the steps, whose first one is `agree`.
        """
        try:
            self._check_split(name)
            steps = prepare()
        except Exception as error:
            steps = functools.partial(fail, error=error)
        return self.comm.start(steps, name)

    def move(self, view: View, start: int, buffer: Buffer, stop: Stop, writing: bool) -> int:
        """Write or read the items of a buffer; return the number of bytes moved.

        It is called through `Disk.run`, because it may wait for the disk.
        """
        nbytes = view.nbytes(buffer)
        if self.atomic and nbytes:
            with self._guarded(view, start, nbytes, writing):
                return self._move(view, start, buffer, stop, writing)
        return self._move(view, start, buffer, stop, writing)

    def _move(self, view: View, start: int, buffer: Buffer, stop: Stop, writing: bool) -> int:
        if writing:
            return self._each(transfer.write, view, start, transfer.outgoing(buffer, view.external), stop)
        stream = transfer.in_place(buffer, view.external)
        if stream is not None:
            return self._each(transfer.read, view, start, stream, stop)
        memory = allocate(view.nbytes(buffer))
        done = self._each(transfer.read, view, start, Stream(memory), stop)
        (buffer.from_external32 if view.external else buffer.unpack)(memory[:done])
        return done

    def _guarded(self, view: View, start: int, nbytes: int, writing: bool) -> contextlib.AbstractContextManager[None]:
        """Return the lock that an access in atomic mode holds on the bytes of the access (section 14.6.1)."""
        first, last = view.position(start), view.position(start + nbytes - 1)
        return locked(self.fd, self._mutex, first, last + 1 - first, shared=not writing)

    def _each(self, function: Transfer, view: View, start: int, stream: Stream, stop: Stop) -> int:
        """Call a function for parts of the stream, each of few pieces. Return the number of bytes moved."""
        if view.contiguous:
            run = transfer.write_run if function is transfer.write else transfer.read_run
            return run(self.fd, view.position(start), stream, 0, stream.nbytes, stop)
        done = 0
        for length in view.batches(stream.nbytes):
            moved = function(self.fd, view.pieces(start + done, length), stream.part(done, length), stop)
            done += moved
            if moved < length:
                break
        return done
