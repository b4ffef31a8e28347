"""Links over real sockets: between engines in event loops and with blocking drivers."""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import threading
import tracemalloc
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from aiompi import errors
from aiompi.comm import Communicator
from aiompi.core.pure.peer import OVERHEAD
from aiompi.driver.blocking import BlockingDriver
from aiompi.engine import AwaitableCall
from aiompi.transport.connection import PART
from aiompi.transport.stream import StreamLink
from aiompi.wire import frame
from aiompi.wire.frame import HEADER
from support.descriptors import no_more_descriptors
from support.frames import Header
from support.limits import LIMIT
from support.worlds import (
    PolledWorld,
    RawPeer,
    SocketWorld,
    irecv,
    irecv_into,
    isend,
    open_descriptors,
    pattern,
)

Run = Callable[[Coroutine[Any, Any, Any]], Any]
NewPolled = Callable[..., PolledWorld]

#: the header of a message from a raw peer; 100 bytes follow
EAGER_100 = HEADER.pack(*Header(frame.EAGER, source=1, length=100, tag=3))


# Exchange.


def test_connection_is_made_by_the_first_message(run: Run, kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        with SocketWorld(kind, 3, str(tmp_path)) as w:
            receives = [irecv(w.comms[1], 0, tag) for tag in range(2)]
            await asyncio.sleep(0)
            assert not any(transport.links for transport in w.transports)
            isend(w.comms[0], b"first", 1, 0)
            assert await receives[0] == b"first"
            isend(w.comms[0], b"second", 1, 1)
            assert await receives[1] == b"second"
            isend(w.comms[1], b"back", 0)
            assert await irecv(w.comms[0]) == b"back"
            assert [len(transport.links) for transport in w.transports] == [1, 1, 0], "one link serves both"

    run(main())


@pytest.mark.spec("S3.5-1", "S3.5-3", "S2.7-1")
def test_everything_at_once_between_all_ranks(run: Run, kind: str, tmp_path: Path) -> None:
    sizes = [0, 1, 3000, 5000, 20_000, 64 * 2**10, 64 * 2**10 + 1, 300_000, 7]

    async def rank(w: SocketWorld, own: int) -> None:
        sends = []
        for i, size in enumerate(sizes):
            sends += [isend(w.comms[own], pattern(size, i), dest, 1, i % 4 == 3) for dest in range(w.size)]
        for source in range(w.size):
            for i, size in enumerate(sizes):
                memory = bytearray(size)
                status = await irecv_into(w.comms[own], memory, source, 1)
                assert (status.nbytes, status.source) == (size, source)
                assert memory == pattern(size, i)
        await asyncio.gather(*sends)

    async def main() -> None:
        with SocketWorld(kind, 3, str(tmp_path)) as w:
            await asyncio.gather(*(rank(w, own) for own in range(3)))
            assert all(transport.idle() for transport in w.transports)

    run(main())


@pytest.mark.spec("S3.5-1")
def test_a_connection_that_lacks_a_descriptor_is_made_later(polled: NewPolled) -> None:
    w = polled()
    with no_more_descriptors(), pytest.raises(OSError, match="Too many open files"):
        isend(w.comms[0], b"lost", 1)
    assert not w.transports[0].links
    isend(w.comms[0], b"found", 1)
    assert w.finish(irecv(w.comms[1], 0)) == [b"found"]


def test_simultaneous_connects(run: Run, kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        with SocketWorld(kind, 2, str(tmp_path)) as w:
            for i in range(50):
                for own in range(2):
                    isend(w.comms[own], b"%d" % i, 1 - own)
            for own in range(2):
                assert [await irecv(w.comms[own], 1 - own) for _ in range(50)] == [b"%d" % i for i in range(50)]
            assert [len(transport.links) for transport in w.transports] == [2, 2]
            big = [irecv(w.comms[own], 1 - own) for own in range(2)]
            await asyncio.gather(*(isend(w.comms[own], pattern(10**6), 1 - own) for own in range(2)))
            assert await asyncio.gather(*big) == [pattern(10**6)] * 2

    run(main())


@pytest.mark.parametrize(("size", "asks"), [(2**20, False), (2**20 + 1, True)])
def test_how_long_a_message_over_tcp_is_before_the_receiver_is_asked(
    run: Run, kind: str, tmp_path: Path, size: int, asks: bool
) -> None:
    """Elsewhere the limit is `eager_limit`."""

    async def main() -> None:
        with SocketWorld(kind, 2, str(tmp_path), eager_limit=1000, tcp_eager_limit=2**20) as w:
            send = isend(w.comms[0], pattern(size), 1)
            assert bool(w.engines[0].sends) == (asks or kind != "tcp")
            assert await irecv(w.comms[1]) == pattern(size)
            await send

    run(main())


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("size", [5000, 20_000, 2**20])
def test_narrow_sockets_both_ways_at_once(run: Run, kind: str, tmp_path: Path, size: int) -> None:
    async def main() -> None:
        with SocketWorld(kind, 2, str(tmp_path), eager_limit=64 * 2**10) as w:
            count = max(1, 200_000 // size)
            memories = [[bytearray(size) for _ in range(count)] for _ in range(2)]
            receives = [irecv_into(w.comms[own], memory) for own in range(2) for memory in memories[own]]
            sends = [isend(w.comms[own], pattern(size, i), 1 - own) for own in range(2) for i in range(count)]
            await asyncio.gather(*sends, *receives)
            for own in range(2):
                assert memories[own] == [pattern(size, i) for i in range(count)]

    run(main())


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("sizes", [[0] * 3 + [60_000, 0], [300] * 200, [0, 0], [30_000] * 5 + [0], [50_000, 1]])
def test_payload_in_many_pieces_through_a_narrow_socket(run: Run, kind: str, tmp_path: Path, sizes: list[int]) -> None:
    data = pattern(sum(sizes))
    pieces, at = [], 0
    for size in sizes:
        pieces.append(memoryview(data)[at : at + size])
        at += size

    async def main() -> None:
        with SocketWorld(kind, 2, str(tmp_path), eager_limit=100_000) as w:
            for eager_limit in (100_000, 10):
                w.engines[0].eager_limit = eager_limit
                sends = [w.comms[0].isend(pieces, len(data), 1, 0) for _ in range(3)]
                assert [await irecv(w.comms[1]) for _ in range(3)] == [data] * 3
                async with asyncio.timeout(LIMIT):
                    await asyncio.gather(*sends)
            assert all(transport.idle() for transport in w.transports)

    run(main())


@pytest.mark.usefixtures("narrow")
def test_memory_that_has_not_left_is_still_the_sends(run: Run, kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        with SocketWorld(kind, 2, str(tmp_path)) as w:
            memory = bytearray(pattern(60_000))
            send = isend(w.comms[0], memory, 1)
            assert not send.done()
            await send
            memory[:] = bytes(60_000)
            assert await irecv(w.comms[1]) == pattern(60_000)

    run(main())


def test_small_message_is_complete_at_its_call_where_a_loop_sends_it(run: Run, kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        with SocketWorld(kind, 2, str(tmp_path)) as w:
            memory = bytearray(b"copied")
            assert isend(w.comms[0], memory, 1).done()
            memory[:] = b"XXXXXX"
            assert await irecv(w.comms[1]) == b"copied"

    run(main())


@pytest.mark.parametrize("size", [0, 6, 5000])
def test_message_is_complete_when_it_has_left_where_nothing_runs_in_the_background(
    polled: NewPolled, size: int
) -> None:
    w = polled()
    send = isend(w.comms[0], pattern(size), 1)
    assert not send.done()
    while not send.done():
        w.poll()
    w.transports[0].close()
    assert w.finish(irecv(w.comms[1], 0)) == [pattern(size)]


def test_payload_is_received_without_copies(polled: NewPolled) -> None:
    w = polled()
    size = 8 * 2**20
    source, target = bytearray(pattern(1000) * (size // 1000 + 1))[:size], bytearray(size)
    w.finish(isend(w.comms[0], b"x", 1), irecv(w.comms[1]))
    tracemalloc.start()
    try:
        w.finish(irecv_into(w.comms[1], target), isend(w.comms[0], source, 1))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert target == source
    assert peak < 256 * 2**10


def test_receiver_over_tcp_is_woken_for_parts_of_a_long_payload(tmp_path: Path) -> None:
    size, awaited = 600_000, []
    with PolledWorld("tcp", 2, str(tmp_path)) as w, RawPeer(w, 0).greet() as raw:
        receive = irecv(w.comms[0], 1, 3)
        w.until(lambda: bool(w.transports[0].links))
        (link,) = w.transports[0].links
        raw.send(HEADER.pack(*Header(frame.EAGER, source=1, length=size, tag=3)))
        w.until(lambda: link._frames.landing is not None)
        for length in (100, 250_000, 1, 299_899, 49_999, 1):
            raw.send(bytes(length))
            w.poll()
            if not receive.done():
                awaited.append(link._socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT))
                landing = link._frames.landing
                assert awaited[-1] <= (1 if landing is None else size - landing.filled)
        w.until(receive.done)
        assert max(awaited) == PART
        assert link._socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) == 1


@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_messages_of_whole_parts_and_of_whole_calls(run: Run, kind: str, tmp_path: Path, extra: int) -> None:
    async def main() -> None:
        with SocketWorld(kind, 2, str(tmp_path)) as w:
            for size in (
                PART + extra,
                2**20 + extra,
                2**20 + 69_584 + extra,
                3 * 2**20 + PART + extra,
            ):
                data, memory = pattern(size), bytearray(size)
                send = isend(w.comms[0], data, 1)
                await irecv_into(w.comms[1], memory, 0)
                await send
                assert memory == data

    run(main())


def test_busy_connection_does_not_starve_the_others(polled: NewPolled) -> None:
    w = polled(3)
    w.finish(isend(w.comms[0], b"x", 2), isend(w.comms[1], b"x", 2), irecv(w.comms[2], 0), irecv(w.comms[2], 1))
    big = irecv(w.comms[2], 0)
    isend(w.comms[0], bytes(64 * 2**20), 2)
    small = irecv(w.comms[2], 1)
    w.until(lambda: bool(w.engines[2].peer(0).landings))
    isend(w.comms[1], b"small", 2)
    w.until(small.done)
    assert not big.done()
    w.until(big.done)


class Tireless(socket.socket):
    """A socket whose other side takes everything at once and sends nothing."""

    def __init__(self) -> None:
        near, self._far = socket.socketpair()
        super().__init__(fileno=near.detach())
        self.calls: list[int] = []

    def sendmsg(self, pieces: Any, *_: Any) -> int:  # type: ignore[override]
        self.calls.append(sum(map(len, pieces)))
        return self.calls[-1]

    def recv_into(self, *_: Any) -> int:
        raise BlockingIOError

    def close(self) -> None:
        self._far.close()
        super().close()


def test_loop_gets_a_turn_while_a_receiver_takes_all_that_is_written(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        with SocketWorld("unix", 2, str(tmp_path)) as w:
            link = w.transports[0].link(w.engines[0].peer(1), dialled=True)
            sock = Tireless()
            link.open(sock)
            header, payload = bytes(48), bytes(2**20 - 48)
            assert link.send(header, (payload,), None)
            assert link.send(header, (payload,), None)
            assert not link.send(header, (payload,), None), "in the same turn"
            for _ in range(7):
                assert not link.send(header, (payload,), None)
            assert sock.calls == [2**20] * 2
            turns = []
            while not link.idle:
                await asyncio.sleep(0)
                turns.append(sum(sock.calls))
            assert sum(sock.calls) == 10 * 2**20
            assert max(after - before for before, after in itertools.pairwise(turns)) == 2 * 2**20
            assert max(sock.calls) == 2**20
            sock.calls.clear()
            for number in range(1, 11):
                await asyncio.sleep(0)
                assert link.send(header, (payload,), None), "in a turn of its own"
                assert sock.calls == [2**20] * number
            link.close()

    run(main())


def test_blocking_rank_writes_all_that_a_receiver_takes(tmp_path: Path) -> None:
    with PolledWorld("unix", 2, str(tmp_path)) as w:
        link = w.transports[0].link(w.engines[0].peer(1), dialled=True)
        sock = Tireless()
        link.open(sock)
        for _ in range(3):
            assert link.send(bytes(48), (bytes(8 * 2**20 - 48),), None)
        assert sock.calls == [8 * 2**20] * 3
        link.close()


def test_the_end_of_a_peer_releases_what_waits_until_all_has_left(polled: NewPolled) -> None:
    """What is still queued for a peer that has finalized is not needed any more: Finalize must not wait for it."""
    w = polled()
    w.finish(isend(w.comms[0], b"connects", 1), irecv(w.comms[1]))
    transport, released = w.transports[0], list[bool]()
    transport.drained = lambda: released.append(not transport.links)
    w.engines[1].finish()
    w.until(lambda: w.engines[0].peer(1).finalize_error is not None)
    w.transports[1].close()
    w.until(lambda: not transport.links)
    assert released[-1:] == [True]


def test_flood_waits_in_the_sender(polled: NewPolled) -> None:
    w = polled(eager_window=50_000, eager_limit=10_000)
    sends = [isend(w.comms[0], pattern(10_000, i), 1) for i in range(40)]
    w.until(lambda: w.held(1, 0) == 4 * (10_000 + OVERHEAD))
    for _ in range(20):
        w.poll()
    assert [send.done() for send in sends] == [True] * 4 + [False] * 36
    assert w.finish(*(irecv(w.comms[1]) for _ in range(40))) == [pattern(10_000, i) for i in range(40)]
    w.finish(*sends)


def test_blocking_ranks_in_threads(kind: str, tmp_path: Path) -> None:
    w = PolledWorld(kind, 2, str(tmp_path))
    failures: list[BaseException] = []

    def rank(own: int) -> None:
        try:
            driver: BlockingDriver = w.drivers[own]
            for i in range(200):
                size = (8, 5000, 100_000)[i % 3]
                send, receive = isend(w.comms[own], pattern(size, i), 1 - own), irecv(w.comms[own])
                assert driver.wait(receive) == pattern(size, i)
                driver.wait(send)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=rank, args=(own,)) for own in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    w.__exit__()
    assert not failures


@pytest.mark.parametrize("size", [40_000, 10**6])
@pytest.mark.usefixtures("narrow")
def test_receive_is_withdrawn_while_its_payload_arrives(run: Run, kind: str, tmp_path: Path, size: int) -> None:
    async def main() -> None:
        with SocketWorld(kind, 2, str(tmp_path)) as w:
            memory = bytearray(size)
            task = asyncio.create_task(AwaitableCall(irecv_into(w.comms[1], memory)))
            send = isend(w.comms[0], pattern(size), 1)
            while not memory[:5000].strip(b"\0"):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
            memory[:] = bytes(size)
            assert await irecv(w.comms[1]) == pattern(size)
            await send
            assert memory == bytes(size)

    run(main())


@pytest.mark.parametrize("size", [40_000, 10**6])
@pytest.mark.usefixtures("narrow")
def test_send_is_withdrawn_while_its_payload_leaves(run: Run, kind: str, tmp_path: Path, size: int) -> None:
    async def main() -> None:
        with SocketWorld(kind, 2, str(tmp_path)) as w:
            receives = [irecv(w.comms[1]) for _ in range(3)]
            await isend(w.comms[0], b"before", 1)
            memories = [bytearray(pattern(size, i)) for i in range(2)]
            tasks = [asyncio.create_task(AwaitableCall(isend(w.comms[0], memory, 1))) for memory in memories]
            while not (w.engines[1].peer(0).landings or tasks[-1].done()):  # a short one may arrive in one turn
                await asyncio.sleep(0)
            for task, memory in zip(tasks, memories, strict=True):
                task.cancel()
                await asyncio.wait([task])
                memory[:] = bytes(size)
            got = await asyncio.gather(*receives)
            assert got == [b"before", pattern(size, 0), pattern(size, 1)]

    run(main())


# The end of a connection.


def test_ranks_that_close_are_gone(polled: NewPolled) -> None:
    w = polled()
    w.finish(isend(w.comms[0], b"x", 1), irecv(w.comms[1]))
    receive, other, own = irecv(w.comms[1], 0), irecv(w.comms[1]), irecv(w.comms[1], 1)
    w.transports[0].close()
    w.until(receive.done)
    for failed in (receive, other):
        with pytest.raises(errors.ProcessFailedError, match="rank 0 is gone: its connection closed"):
            failed.result()
    assert not own.done()
    assert isend(w.comms[1], b"x", 0).exception() is not None
    assert not w.transports[1].links


@pytest.mark.parametrize(
    "last_words",
    [b"", EAGER_100[:1], EAGER_100[:-1], EAGER_100, EAGER_100 + bytes(99)],
    ids=["between frames", "first byte", "header", "no payload", "payload"],
)
@pytest.mark.parametrize("posted", [True, False])
@pytest.mark.parametrize("reset", [True, False])
def test_peer_that_closes_in_the_middle(polled: NewPolled, last_words: bytes, posted: bool, reset: bool) -> None:
    w = polled()
    receive = irecv(w.comms[0], 1, 3) if posted else None
    with RawPeer(w, 0).greet() as raw:
        raw.send(EAGER_100 + bytes(100) + last_words)
        w.until(lambda: w.comms[0].iprobe(1, 3) is not None or (receive is not None and receive.done()))
        if reset:
            raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    first = receive or irecv(w.comms[0], 1, 3)
    assert w.finish(first) == [bytes(100)]
    second = irecv(w.comms[0], 1, 3)
    w.until(second.done)
    with pytest.raises(errors.ProcessFailedError, match=r"rank 1 is gone: its connection (closed|failed)"):
        second.result()
    assert not w.transports[0].links
    assert list(w.comms[0].matcher.unexpected()) == []


def test_peer_that_says_goodbye_and_closes(polled: NewPolled) -> None:
    w = polled()
    lost: list[str] = []
    w.engines[0].environment.lost = lambda peer, cause: lost.append(cause)
    receives = [irecv(w.comms[0], 1, tag) for tag in (3, 4)]
    with RawPeer(w, 0).greet() as raw:
        raw.send(EAGER_100 + bytes(100) + HEADER.pack(*Header(frame.FINI)))
    assert w.finish(receives[0]) == [bytes(100)]
    w.until(receives[1].done)
    with pytest.raises(errors.ProcessFailedError, match="rank 1 has finalized"):
        receives[1].result()
    w.until(lambda: not w.transports[0].links)
    assert lost == []


@pytest.mark.parametrize("tls", ["off", "on"])
@pytest.mark.parametrize("good_order", [True, False])
def test_a_send_that_fails_does_not_hide_the_last_words(polled: NewPolled, tls: str, good_order: bool) -> None:
    """They lie in the socket, unread, when it refuses to take more."""
    w = polled(tls=tls)
    w.finish(isend(w.comms[0], b"x", 1), irecv(w.comms[1]), isend(w.comms[1], b"x", 0), irecv(w.comms[0]))
    isend(w.comms[1], b"last words", 0)
    if good_order:
        w.engines[1].peer(0).emit(frame.FINI)
    w.transports[1].close()
    sends = [isend(w.comms[0], bytes(size), 1) for size in (10, 10, 50_000, 10)]  # TCP and a ring take some
    assert w.finish(irecv(w.comms[0])) == [b"last words"]
    w.until(lambda: all(send.done() for send in sends) and not w.transports[0].links)
    failures = [send.exception() for send in (*sends, isend(w.comms[0], b"", 1))]
    reason = "rank 1 has finalized" if good_order else "rank 1 is gone: its connection closed"
    assert all(reason in str(failure) for failure in failures if failure is not None)
    assert failures[-1] is not None


def test_end_of_one_of_two_links_says_nothing_about_the_other(polled: NewPolled) -> None:
    w = polled()
    sends = [isend(w.comms[own], b"x", 1 - own) for own in range(2)]
    w.finish(*sends, *(irecv(comm) for comm in w.comms))
    judged: list[bool] = []
    w.engines[1].environment.lost = lambda peer, cause: judged.append(w.transports[1].linked(peer))
    peer = w.engines[1].peer(0)
    receives = [irecv(w.comms[1], 0) for _ in range(21)]
    w.finish(*(isend(w.comms[0], pattern(50, i), 1) for i in range(20)))
    w.engines[0].peer(1).emit(frame.FINI)
    w.transports[0].close()
    assert len(w.links(1, 0)) == 2
    silent = peer.link
    if type(silent).__name__ == "RingLink":  # which only the native form has
        silent._spoken()
    else:
        assert isinstance(silent, StreamLink)
        silent._readable()
    assert judged == [True], "the other link may still bring frames"
    w.until(lambda: all(receive.done() for receive in receives))
    assert [receive.result() for receive in receives[:20]] == [pattern(50, i) for i in range(20)]
    assert repr(receives[20].exception()) == repr(peer.finalize_error)
    w.until(lambda: not w.transports[1].linked(peer))
    assert judged == [True]


@pytest.mark.parametrize(
    "garbage", [b"\xff" * 100, HEADER.pack(*Header(frame.EAGER, length=2**60)), b"\xc8" + bytes(47)]
)
def test_authenticated_peer_that_sends_garbage_is_dropped(polled: NewPolled, garbage: bytes) -> None:
    w = polled()
    receive = irecv(w.comms[0], 1)
    with RawPeer(w, 0).greet() as raw:
        raw.send(garbage)
        w.until(raw.dropped)
        w.until(receive.done)
    assert isinstance(receive.exception(), errors.ProcessFailedError)


def stuffed(w: PolledWorld, raw: RawPeer) -> list[Any]:
    """Sends to a raw peer that does not read, until its socket takes no more: their memory is in the link's queue."""
    sends = []
    while not sends or sends[-1].done():
        sends.append(isend(w.comms[0], bytes(60_000), 1))
    sends.append(isend(w.comms[0], bytes(60_000), 1))
    assert w.links(0, 1)[0]._queue
    return sends[-2:]


@pytest.mark.usefixtures("narrow")
def test_sends_in_the_queue_fail_with_the_connection(polled: NewPolled) -> None:
    w = polled()
    with RawPeer(w, 0).greet() as raw:
        w.until(lambda: bool(w.links(0, 1)))
        sends = stuffed(w, raw)
    w.until(lambda: all(send.done() for send in sends))
    for send in sends:
        assert isinstance(send.exception(), errors.ProcessFailedError)


@pytest.mark.usefixtures("narrow")
def test_sends_in_the_queue_fail_when_the_peer_has_said_goodbye(polled: NewPolled) -> None:
    w = polled()
    with RawPeer(w, 0).greet() as raw:
        w.until(lambda: bool(w.links(0, 1)))
        sends = stuffed(w, raw)
        raw.send(HEADER.pack(*Header(frame.FINI)))
        raw.socket.shutdown(socket.SHUT_WR)
        w.until(lambda: all(send.done() for send in sends))
    with pytest.raises(errors.ProcessFailedError, match="finalized"):
        sends[-1].result()


@pytest.mark.usefixtures("narrow")
def test_sends_in_the_queue_fail_when_the_job_aborts(polled: NewPolled) -> None:
    w = polled()
    reason = errors.JobAbortedError("test")
    with RawPeer(w, 0).greet() as raw:
        w.until(lambda: bool(w.links(0, 1)))
        sends = stuffed(w, raw)
        w.engines[0].failure.abort(reason)
        w.transports[0].close()
        assert [send.exception() for send in sends] == [reason, reason]


@pytest.mark.usefixtures("narrow")
def test_memory_is_not_written_to_after_the_connection_broke(polled: NewPolled) -> None:
    w = polled()
    memory = bytearray(b"\xee" * 10_000)
    receive = irecv_into(w.comms[0], memory)
    with RawPeer(w, 0).greet() as raw:
        raw.send(HEADER.pack(*Header(frame.EAGER, source=1, length=10_000)) + bytes(100))
        w.until(lambda: bool(w.engines[0].peer(1).landings))
    w.until(receive.done)
    assert isinstance(receive.exception(), errors.ProcessFailedError)
    assert memory[100:] == b"\xee" * 9900


def test_closing_while_connections_are_being_made(polled: NewPolled) -> None:
    w = polled(3)
    isend(w.comms[0], b"x", 1)
    isend(w.comms[1], b"x", 2)
    w.drivers[0].poll()
    w.drivers[1].poll()
    with RawPeer(w, 2):
        w.drivers[2].poll()
        for transport in w.transports:
            transport.close()
            transport.close()


def test_descriptors_are_not_inherited(polled: NewPolled) -> None:
    before = open_descriptors()
    w = polled()
    isend(w.comms[0], b"x", 1)
    isend(w.comms[1], b"x", 0)
    w.finish(irecv(w.comms[0]), irecv(w.comms[1]))
    new = open_descriptors() - before
    assert len(new) >= 2 * 4, "a driver, a listener and two links each"
    assert not any(os.get_inheritable(fd) for fd in new)


def test_drained_is_called_when_the_last_bytes_have_left(polled: NewPolled) -> None:
    w = polled()
    calls: list[bool] = []
    w.transports[0].drained = lambda: calls.append(w.transports[0].idle())
    isend(w.comms[0], bytes(100), 1)
    assert not w.transports[0].idle(), "the connection is not made yet"
    assert calls == []
    w.until(lambda: bool(calls))
    assert calls[-1] is True
    assert w.finish(irecv(w.comms[1])) == [bytes(100)]


def test_linked_tells_whether_frames_may_still_come(polled: NewPolled) -> None:
    w = polled()
    peer = w.engines[1].peer(0)
    assert not w.transports[1].linked(peer)
    w.finish(isend(w.comms[0], b"x", 1), irecv(w.comms[1]))
    assert w.transports[1].linked(peer)
    w.transports[0].close()
    w.until(lambda: not w.transports[1].linked(peer))


def test_cancelled_send_before_the_connection_stands(run: Run, kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        with SocketWorld(kind, 2, str(tmp_path)) as w:
            task = asyncio.create_task(AwaitableCall(isend(w.comms[0], bytes(10**6), 1, 1)))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            send = isend(w.comms[0], b"last", 1, 2)
            assert await irecv(w.comms[1], 0, 2) == b"last"
            await send
            assert w.comms[1].iprobe(0, 1) is None

    run(main())


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", ["unix", "tcp"])
async def test_two_producers_are_served_alike(kind: str, tmp_path: Path) -> None:
    """Each turn reads an equal share of each connection, and so credit comes back evenly."""
    with SocketWorld(kind, 3, str(tmp_path)) as world:
        consumer, *producers = world.comms

        async def produce(comm: Communicator) -> None:
            while True:
                await isend(comm, b"small", 0)

        tasks = [asyncio.ensure_future(produce(comm)) for comm in producers]
        counts = [0, 0, 0]
        for number in range(20_000):
            receive = irecv(consumer)
            await receive
            counts[receive.source] += number >= 10_000
        for task in tasks:
            task.cancel()
    assert 4_500 < counts[1] < 5_500, counts
