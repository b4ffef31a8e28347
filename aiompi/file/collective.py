"""Collective accesses: in two phases where pieces are small (MPI-4.1, section 14.4.2).

Some ranks are *aggregators*: each writes or reads one part of the file in large pieces for all ranks, and exchanges
data with all ranks. Aggregators write only bytes that ranks have given, because other programs may own the bytes
between the pieces. If pieces are large, or each rank has one piece, every rank moves its own data.
"""

from __future__ import annotations

import contextlib
import functools
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aiompi.base.lazy import np
from aiompi.coll.block import Block
from aiompi.comm import Channel
from aiompi.comm.recovery import revoke
from aiompi.core.allocation import allocate
from aiompi.datatype import Buffer
from aiompi.engine import Request
from aiompi.errors import MPIError, RevokedError, TruncationError
from aiompi.file.aggregation import Part, Pieces, cut, read_window, total, write_window
from aiompi.file.failures import agree, of_cause
from aiompi.file.hints import AUTOMATIC, WAYS
from aiompi.file.transfer import Stop

if TYPE_CHECKING:
    from aiompi.file.access import Access

#: mean bytes of a piece from which on each rank moves its own data
DIRECT: Final = 16 * 2**10
#: ranges of aggregators begin at multiples of this, bytes
_ALIGNED: Final = 64 * 2**10
#: message of a rank about its access; see `_Told`
_ACCESS: Final = struct.Struct("<7q")
#: message at the end: first wanted byte after the end of the file
_END: Final = struct.Struct("<q")
_NEVER: Final = 2**63 - 1


class _Told(NamedTuple):
    """The access of one rank.

    Attributes:
        low, high: positions in the file of the first byte, and of the byte after the last.
        nbytes, pieces: number of bytes, and number of pieces.
        cb_nodes, cb_buffer_size, way: hints of the rank; only the hints of rank 0 count, so that all ranks do the same.
    """

    low: int
    high: int
    nbytes: int
    pieces: int
    cb_nodes: int
    cb_buffer_size: int
    way: int


class CollectiveAccess:
    """A collective access of one rank.

    Args:
        file: the file.
        name: of the call.
        buffer: the items.
        nbytes: bytes of the stream that they take.
        writing: True to write, False to read.
        at_once: True if the caller waits for the end.

    Attributes:
        begun: True once all ranks have come, with arguments that are right.
    """

    def __init__(self, file: Access, name: str, buffer: Buffer, nbytes: int, *, writing: bool, at_once: bool) -> None:
        self._file, self._view = file, file.view
        self._name, self._buffer, self._nbytes = name, buffer, nbytes
        self._writing, self._at_once = writing, at_once
        self._error: MPIError | None = None
        self.begun = False
        self._end = _NEVER  # end of the file, if a read has reached it

    async def run(self, channel: Channel, start: int) -> int:
        """Make the access, which begins at byte `start` of the stream; return the number of bytes moved.

        Raises:
            aiompi.MPIError: a rank has failed; all ranks raise the error.
        """
        error, mine = None, b""
        try:
            self._file.check_end(self._view, start, self._nbytes, self._name)
            mine = _ACCESS.pack(*self._told(start))
        except MPIError as failed:
            error = failed
        told = [_Told(*_ACCESS.unpack(data)) for data in await agree(channel, error, mine)]
        self.begun = True
        if self._is_direct(told):
            move = functools.partial(self._file.move, self._view, start, self._buffer, Stop(), self._writing)
            done = await self._attempt(move, self._nbytes)
            await agree(channel, self._error)
            return int(done)
        exchange = await self._attempt(lambda: self._prepared(channel, told, start))
        await agree(channel, self._error)
        end = await self._made(exchange, channel)
        if self._writing:
            return self._nbytes
        done = min(self._nbytes, max(0, self._view.before(end) - start))
        await self._attempt(lambda: self._store(exchange.stream[:done]))
        if self._error is not None:
            raise self._error
        return done

    def _told(self, start: int) -> _Told:
        """Return what other ranks need to know of the access of this rank."""
        view, nbytes, hints = self._view, self._nbytes, self._file.hints
        way = WAYS.index(hints.cb_write if self._writing else hints.cb_read)
        settings = hints.cb_nodes, hints.cb_buffer_size, way
        if not nbytes:
            return _Told(_NEVER, 0, 0, 0, *settings)
        low, high = view.position(start), view.position(start + nbytes - 1) + 1
        return _Told(low, high, nbytes, view.count(start, nbytes), *settings)

    def _is_direct(self, told: Sequence[_Told]) -> bool:
        """Return True if each rank moves its own data; all ranks come to the same result."""
        way = WAYS[told[0].way]
        nbytes, pieces = sum(each.nbytes for each in told), sum(each.pieces for each in told)
        if self._file.atomic or len(told) == 1 or not nbytes or way == "disable":
            return True
        return way == AUTOMATIC and (pieces <= len(told) or nbytes >= DIRECT * pieces)

    def _prepared(self, channel: Channel, told: Sequence[_Told], start: int) -> _Exchange:
        return _Exchange(self, channel, told, self._view.pieces(start, self._nbytes), self._stream())

    async def _made(self, exchange: _Exchange, channel: Channel) -> int:
        """Make the exchange. If this rank cannot go on, revoke the file's communicator, so that no rank waits for it.

        Returns:
            The end of the file, if a read of any rank has reached it; otherwise `_NEVER`.

        Raises:
            RevokedError: another rank could not go on.
            FileError: this rank could not go on, for example because its memory has run out.
        """
        where = self._file.where(self._name)
        try:
            await (exchange.write() if self._writing else exchange.read())
            told = await agree(channel, self._error, _END.pack(self._end))
            return int(min(_END.unpack(data)[0] for data in told))
        except RevokedError as error:
            raise RevokedError(
                f"{where}: {error}, as a rank does that cannot go on in the midst of a collective call: close the file"
            ) from error
        except MPIError:
            raise
        except Exception as error:
            with contextlib.suppress(NotImplementedError):  # other IMPI clients
                revoke(self._file.comm)
            failure = of_cause(error, where)
            raise failure from failure.__cause__

    def _stream(self) -> memoryview:
        """Return the data to write in the order of the stream, or memory for the data to be read."""
        buffer, external = self._buffer, self._view.external
        if self._writing:
            return buffer.to_external32() if external else buffer.packed()
        return buffer.view if self._in_place else allocate(self._nbytes)

    @property
    def _in_place(self) -> bool:
        return self._buffer.contiguous and (not self._view.external or self._buffer.lies_external)

    def _store(self, data: memoryview) -> None:
        if not self._in_place:
            (self._buffer.from_external32 if self._view.external else self._buffer.unpack)(data)

    async def _attempt(self, work: Any, nbytes: int = 0) -> Any:
        """Call a function in a thread; return its result. Keep an error for the end, because other ranks go on."""
        return await self.outcome(self._file.disk.run(work, nbytes=nbytes, at_once=self._at_once))

    async def outcome(self, request: Request[Any]) -> Any:
        """Return the result of a request, 0 if it has failed."""
        try:
            return await request
        except Exception as error:
            self._error = self._error or of_cause(error, self._file.where(self._name))
            return 0

    def room(self, nbytes: int) -> memoryview:
        """Return memory for arriving data; empty if this rank has failed and therefore drops the data."""
        try:
            return allocate(0 if self.failed else nbytes)
        except MemoryError as error:
            self._error = of_cause(error, self._file.where(self._name))
            return allocate(0)

    @property
    def failed(self) -> bool:
        """True if this rank has failed."""
        return self._error is not None

    def meet_end(self, end: int) -> None:
        """Record that the file ends before a wanted byte."""
        self._end = min(self._end, end)

    @property
    def file(self) -> Access:
        """The file."""
        return self._file

    @property
    def at_once(self) -> bool:
        """True if the caller waits for the end."""
        return self._at_once


class _Exchange:
    """The exchange of data between a rank and the aggregators.

    Args:
        call: the access.
        channel: of the call.
        told: the accesses, in rank order.
        pieces: of this rank, in the file.
        stream: data of this rank, or room for its data.

    Attributes:
        stream: as above.
    """

    def __init__(
        self, call: CollectiveAccess, channel: Channel, told: Sequence[_Told], pieces: Pieces, stream: memoryview
    ) -> None:
        self._call, self._channel, self._pieces, self.stream = call, channel, pieces, stream
        self._fd, self._disk = call.file.fd, call.file.disk
        low, high = min(each.low for each in told), max(each.high for each in told)
        self._aggregators = aggregators(channel.hosts, told[0].cb_nodes)
        share = -(-(high - low) // len(self._aggregators))
        share = -(-share // _ALIGNED) * _ALIGNED
        self._bounds = [(low + i * share, min(high, low + (i + 1) * share)) for i in range(len(self._aggregators))]
        self._window = told[0].cb_buffer_size
        self._steps = -(-min(share, high - low) // self._window)
        self._wanted = [cut(pieces, *bounds) for bounds in self._bounds]  # pieces of this rank at each aggregator
        self._told = [np.concatenate(part.pieces).view(np.uint8).data for part in self._wanted]
        self._parts: list[Part] = []  # at an aggregator, the pieces of each rank

    async def write(self) -> None:
        """Send the data to the aggregators, which write them."""
        await self._tell_pieces()
        writing: Request[None] | None = None
        for step in range(self._steps):
            sends = self._send_to_aggregators(step)
            parts = await self._receive(step)
            if writing is not None:
                await self._call.outcome(writing)
            writing = None
            if parts and not self._call.failed:
                nbytes = sum(len(data) for _, data in parts)
                write = functools.partial(write_window, self._fd, parts)
                writing = self._disk.run(write, nbytes=nbytes, at_once=self._call.at_once)
            for send in sends:
                await send
        if writing is not None:
            await self._call.outcome(writing)

    def _send_to_aggregators(self, step: int) -> list[Request[None]]:
        channel, sends = self._channel, []
        for number, aggregator in enumerate(self._aggregators):
            part = cut(self._pieces, *self._range(number, step))
            if part.nbytes and aggregator != channel.rank:
                data = self.stream[part.start : part.start + part.nbytes]
                sends.append(channel.isend((data,), part.nbytes, aggregator))
        return sends

    async def _receive(self, step: int) -> list[tuple[Pieces, memoryview]]:
        """Return the pieces that an aggregator writes in a step, and their data."""
        channel, parts, arrivals = self._channel, [], []
        for rank, all_of_rank in enumerate(self._parts):
            part = self._window_of(all_of_rank, step)
            if not part.nbytes:
                continue
            if rank == channel.rank:
                start = all_of_rank.start + part.start
                parts.append((part.pieces, self.stream[start : start + part.nbytes]))
                continue
            memory = self._call.room(part.nbytes)
            arrivals.append(channel.irecv(memory, rank))
            parts.append((part.pieces, memory))
        for arrival in arrivals:
            try:
                await arrival
            except TruncationError:
                if not self._call.failed:
                    raise
        return parts

    async def read(self) -> None:
        """Have the aggregators read the data, and receive them."""
        await self._tell_pieces()
        for step in range(self._steps):
            arrivals = self._receive_from_aggregators(step)
            sends = await self._read_for_all(step)
            for arrival in arrivals:
                await arrival
            for send in sends:
                await send

    def _receive_from_aggregators(self, step: int) -> list[Request[Any]]:
        channel = self._channel
        arrivals: list[Request[Any]] = []
        for number, aggregator in enumerate(self._aggregators):
            part = cut(self._pieces, *self._range(number, step))
            if part.nbytes and aggregator != channel.rank:
                arrivals.append(channel.irecv(self.stream[part.start : part.start + part.nbytes], aggregator))
        return arrivals

    async def _read_for_all(self, step: int) -> list[Request[None]]:
        """Read the pieces of a step, up to the end of the file, and send them to the ranks."""
        channel = self._channel
        wanted = [(rank, self._window_of(part, step)) for rank, part in enumerate(self._parts)]
        wanted = [(rank, part) for rank, part in wanted if part.nbytes]
        if not wanted:
            return []
        pieces = [part.pieces for _, part in wanted]
        nbytes = sum(part.nbytes for _, part in wanted)
        read = functools.partial(read_window, self._fd, pieces)
        reading = self._disk.run(read, nbytes=nbytes, at_once=self._call.at_once)
        found, end = await self._call.outcome(reading) or ([memoryview(b"")] * len(pieces), None)
        if end is not None:
            self._call.meet_end(end)
        sends = []
        for (rank, part), data in zip(wanted, found, strict=True):
            if rank == channel.rank:
                start = self._parts[rank].start + part.start
                self.stream[start : start + len(data)] = data
            else:
                sends.append(channel.isend((data,), len(data), rank))
        return sends

    async def _tell_pieces(self) -> None:
        """Tell each aggregator the pieces of this rank in its range."""
        channel, sends = self._channel, []
        own = Part((np.empty(0, np.int64), np.empty(0, np.int64)), 0, 0)
        for aggregator, part, told in zip(self._aggregators, self._wanted, self._told, strict=True):
            if aggregator == channel.rank:
                own = part
            else:
                sends.append(channel.isend((told,), len(told), aggregator))
        if channel.rank in self._aggregators:
            blocks = [Block() for _ in range(channel.size)]
            others = [rank for rank in range(channel.size) if rank != channel.rank]
            for arrival in [blocks[rank].irecv(channel, rank) for rank in others]:
                await arrival
            self._parts = [_told(block) for block in blocks]
            self._parts[channel.rank] = own
        for send in sends:
            await send

    def _range(self, number: int, step: int) -> tuple[int, int]:
        """Return the bytes of the file that an aggregator moves in a step."""
        low, high = self._bounds[number]
        first = low + step * self._window
        return first, max(first, min(high, first + self._window))

    def _window_of(self, part: Part, step: int) -> Part:
        number = self._aggregators.index(self._channel.rank)
        return cut(part.pieces, *self._range(number, step))


def aggregators(hosts: Sequence[Sequence[int]], wanted: int) -> list[int]:
    """Return the ranks that move the data of all ranks, chosen from the hosts in turn.

    Args:
        hosts: the ranks of each host.
        wanted: number of ranks to return; 0: two for each host.
    """
    number = wanted or 2 * len(hosts)
    turns = [host[turn] for turn in range(max(map(len, hosts))) for host in hosts if turn < len(host)]
    return sorted(turns[:number])


def _told(block: Block) -> Part:
    """Return the pieces from the message of a rank."""
    numbers = np.frombuffer(block.data, np.int64) if block.nbytes else np.empty(0, np.int64)
    offsets, lengths = numbers[: len(numbers) // 2], numbers[len(numbers) // 2 :]
    return Part((offsets, lengths), 0, total(lengths))
