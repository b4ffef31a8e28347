"""Connections of strangers, and connections that cannot be made."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import socket
import time
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from aiompi import errors
from aiompi.constants import ANY_SOURCE, ANY_TAG
from aiompi.engine import Link, Peer
from aiompi.transport import stream
from aiompi.transport.dial import describe
from aiompi.transport.shared_memory import SharedMemory
from aiompi.wire import frame, version
from aiompi.wire.frame import HEADER
from aiompi.wire.hello import NO_NAMESPACE, ROLE_PEER, Connector, Protection
from support.descriptors import no_more_descriptors
from support.frames import Header
from support.worlds import KEY, STREAMS, PolledWorld, RawPeer, irecv, isend

NewPolled = Callable[..., PolledWorld]

#: a message from a raw peer
EAGER_100 = HEADER.pack(*Header(frame.EAGER, source=1, length=100, tag=3)) + bytes(100)


# Strangers.


def alive(w: PolledWorld) -> None:
    """Ranks still reach each other."""
    w.finish(isend(w.comms[1], b"alive", 0, 99), irecv(w.comms[0], 1, 99))


@pytest.mark.parametrize("words", [b"GET / HTTP/1.1\r\n\r\n", b"\0" * 500, b"a" * 60_000, b"\xff" * 4 + b"x"])
def test_stranger_that_talks_is_dropped_at_once(polled: NewPolled, words: bytes) -> None:
    w = polled(connect_timeout=30.0)
    with RawPeer(w, 0) as raw:
        raw.send(words)
        w.until(raw.dropped)
        alive(w)
        assert not w.transports[0]._greetings


def test_another_version_is_refused_at_once_and_told_of_this_one(
    polled: NewPolled, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = polled(connect_timeout=30.0)
    ours = version.banner()
    with monkeypatch.context() as patched:
        patched.setattr(version, "own", version.Release(7, "0.7.1"))
        theirs = Connector(KEY, role=ROLE_PEER, rank=1, target=0, channel=Protection.LOCAL).data_to_send()

    def connect() -> None:
        with RawPeer(w, 0) as raw:
            raw.send(theirs)
            assert raw.receive(len(ours)) == ours
            w.until(raw.dropped)

    with pytest.warns(RuntimeWarning, match=r"rank 0 has refused a connection: it is aiompi 0\.7\.1 "):
        connect()
    connect()  # no warning is printed twice
    alive(w)


def test_stranger_that_says_nothing_is_dropped_after_a_while(polled: NewPolled) -> None:
    w = polled(connect_timeout=0.05)
    with RawPeer(w, 0) as silent, RawPeer(w, 0) as slow:
        slow.send(b"aiompi")
        w.poll()
        assert not silent.dropped()
        assert w.transports[0]._greetings
        w.until(lambda: silent.dropped() and slow.dropped())
        assert not w.transports[0]._greetings
        alive(w)


def test_stranger_without_the_key_is_dropped(polled: NewPolled) -> None:
    w = polled()
    with RawPeer(w, 0) as raw:
        with pytest.raises(errors.AuthenticationError):
            raw.greet(key=b"wrong" * 8)
        assert not raw.dropped()
    alive(w)


def test_stranger_that_forges_its_proof_is_dropped(polled: NewPolled) -> None:
    w = polled()
    with RawPeer(w, 0) as raw:
        hello = Connector(b"wrong" * 8, role=ROLE_PEER, rank=1, target=0, channel=raw.channel)
        raw.send(hello.data_to_send())
        assert len(raw.receive(hello.needed)) == hello.needed
        raw.send(bytes(32) + EAGER_100)
        w.until(raw.dropped)
    assert not w.transports[0].links
    assert w.comms[0].iprobe(ANY_SOURCE, ANY_TAG) is None
    alive(w)


@pytest.mark.parametrize("rank", [-2, -1, 0, 2, 2**31 - 1])
def test_peer_that_claims_an_impossible_rank_is_dropped(polled: NewPolled, rank: int) -> None:
    w = polled()
    with RawPeer(w, 0).greet(rank=rank) as raw:
        w.until(raw.dropped)
    alive(w)


def test_peer_that_was_given_up_is_not_taken_back(polled: NewPolled) -> None:
    w = polled()
    w.engines[0].peer(1).mark_failed("test")
    with RawPeer(w, 0).greet() as raw:
        raw.send(EAGER_100)
        w.until(raw.dropped)
    assert list(w.comms[0].matcher.unexpected()) == []


def test_more_strangers_than_may_be_half_open(polled: NewPolled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MAX_GREETINGS", 4)
    w = polled(connect_timeout=30.0)
    strangers = [RawPeer(w, 0) for _ in range(10)]
    try:
        w.until(lambda: sum(raw.dropped() for raw in strangers) >= 4)
        assert [raw.dropped() for raw in strangers] == [True] * 4 + [False] * 6
        alive(w)
        assert len(w.transports[0]._greetings) <= 4 + 2, "and one for each rank"
    finally:
        for raw in strangers:
            raw.socket.close()


def test_strangers_that_say_nothing_make_place_first(polled: NewPolled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MAX_GREETINGS", 4)
    w = polled(connect_timeout=30.0)
    with RawPeer(w, 0) as raw, contextlib.ExitStack() as strangers:
        hello = Connector(KEY, role=ROLE_PEER, rank=1, target=0, channel=raw.channel)
        raw.send(hello.data_to_send())  # which has not been read when the others come
        silent = [strangers.enter_context(RawPeer(w, 0)) for _ in range(20)]
        w.transports[0].accept()
        hello.receive_data(raw.receive(hello.needed))
        raw.send(hello.data_to_send())
        w.until(lambda: bool(w.transports[0].links))
        assert sum(stranger.dropped() for stranger in silent) == 20 - (4 + 2 - 1)


def test_of_strangers_that_all_talk_the_oldest_goes(polled: NewPolled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MAX_GREETINGS", 4)
    w = polled(connect_timeout=30.0)
    with contextlib.ExitStack() as stack:
        talking = [stack.enter_context(RawPeer(w, 0)) for _ in range(10)]
        for raw in talking:
            raw.send(Connector(KEY, role=ROLE_PEER, rank=1, target=0, channel=raw.channel).data_to_send())
        w.until(lambda: sum(raw.dropped() for raw in talking) >= 4)
        assert [raw.dropped() for raw in talking] == [True] * 4 + [False] * 6


def test_as_many_connections_as_there_are_ranks_are_not_too_many(
    polled: NewPolled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "MAX_GREETINGS", 0)
    w = polled(12)
    sends = [isend(comm, b"x" * comm.rank, 0) for comm in w.comms[1:]]
    for driver in w.drivers[1:]:
        for _ in range(3):
            driver.poll()
    monkeypatch.setattr(stream.StreamTransport, "_make_room", lambda self: pytest.fail("turned away"))
    w.finish(*sends, *(irecv(w.comms[0], source) for source in range(1, 12)))


def test_a_turn_accepts_so_many_and_no_more(polled: NewPolled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "_MAX_ACCEPTS", 3)
    w = polled()
    with contextlib.ExitStack() as stack:
        for _ in range(7):
            stack.enter_context(RawPeer(w, 0))
        accepted = []
        for _ in range(4):
            w.transports[0].accept()
            accepted.append(len(w.transports[0]._greetings))
        assert accepted == [3, 6, 7, 7]


def test_without_descriptors_a_rank_accepts_later_and_does_not_spin(
    polled: NewPolled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "ACCEPT_PAUSE", 0.05)
    breathe, attempts = stream.StreamTransport._pause_accepting, []
    monkeypatch.setattr(
        stream.StreamTransport, "_pause_accepting", lambda *short: (attempts.append(1), breathe(*short))
    )
    w = polled()
    start = time.monotonic()
    with RawPeer(w, 0) as raw:
        with warnings.catch_warnings(record=True) as reported, no_more_descriptors():
            warnings.simplefilter("always")
            w.until(lambda: len(attempts) == 4)
        assert time.monotonic() - start >= 3 * stream.ACCEPT_PAUSE
        (one,) = reported
        assert "rank 0 cannot take the connection of another rank: " in str(one.message)
        assert "Too many open files; raise its limits" in str(one.message)
        raw.greet()
        w.until(lambda: bool(w.transports[0].links))


@pytest.mark.parametrize("words", [b"", b"aiompi"])
def test_without_descriptors_a_stranger_makes_room_that_has_said_no_hello(
    polled: NewPolled, monkeypatch: pytest.MonkeyPatch, words: bytes
) -> None:
    """A rank that cannot accept for long fails, so that strangers could end the job."""
    w = polled(connect_timeout=3600.0)
    with RawPeer(w, 0) as stranger, RawPeer(w, 0) as late:
        stranger.send(words)
        late.send(Connector(KEY, role=ROLE_PEER, rank=1, target=0, channel=late.channel).data_to_send())
        w.until(lambda: len(w.transports[0]._greetings) == 2)
        with RawPeer(w, 0) as raw:
            with no_more_descriptors():
                monkeypatch.setattr(stream, "_FOR_HELLO", 0.0)
                w.until(stranger.dropped)
            raw.greet()
            w.until(lambda: bool(w.transports[0].links))
        assert not late.dropped()


def test_a_rank_that_waits_for_descriptors_may_end(polled: NewPolled) -> None:
    w = polled()
    with RawPeer(w, 0) as raw:
        with pytest.warns(RuntimeWarning, match="Too many open files"), no_more_descriptors():
            w.poll()
        w.__exit__()
        assert raw.dropped()


def test_stranger_that_comes_and_goes(polled: NewPolled) -> None:
    w = polled()
    for _ in range(20):
        with RawPeer(w, 0):
            pass
    w.until(lambda: not w.transports[0]._greetings)
    alive(w)


@pytest.mark.parametrize("step", [1, 5])
def test_hello_one_byte_at_a_time(polled: NewPolled, step: int) -> None:
    w = polled()
    with RawPeer(w, 0) as raw:
        hello = Connector(KEY, role=ROLE_PEER, rank=1, target=0, channel=raw.channel)
        shared = isinstance(w.transports[0], SharedMemory)
        for part in (hello.data_to_send(), None):
            data = part or hello.data_to_send() + (b"" if shared else EAGER_100)
            for at in range(0, len(data), step):
                raw.send(data[at : at + step])
                w.poll()
            if part:
                hello.receive_data(raw.receive(hello.needed))
        if shared:
            raw.share()
            raw.send(EAGER_100)
        assert w.finish(irecv(w.comms[0], 1)) == [bytes(100)]


# Connections that cannot be made.


def turn_away(w: PolledWorld, rank: int, times: int) -> Callable[[], int]:
    """Make a rank close the next `times` connections without a byte. Return a function that counts them."""
    transport: Any = w.transports[rank]
    listener, accept, turned = transport._listener, transport.accept, [0]

    def refuse() -> None:
        if turned[0] == times:
            accept()
            return
        with contextlib.suppress(BlockingIOError):
            listener.accept()[0].close()
            turned[0] += 1

    transport.accept = refuse
    transport._listen()
    return lambda: turned[0]


def test_rank_that_is_turned_away_connects_again(polled: NewPolled) -> None:
    w = polled()
    turned = turn_away(w, 1, 3)
    assert w.finish(irecv(w.comms[1]), isend(w.comms[0], b"x", 1))[0] == b"x"
    assert turned() == 3
    assert not w.transports[0]._diallings


def test_rank_that_is_always_turned_away_gives_up(polled: NewPolled, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count()  # of a machine on which nothing takes long
    monkeypatch.setattr("time.monotonic", lambda: 1e-5 * next(clock))
    w = polled(connect_timeout=0.3)
    turned = turn_away(w, 1, 10**6)
    send = isend(w.comms[0], b"x", 1, 0, True)
    w.until(send.done)
    with pytest.raises(errors.ProcessFailedError, match="rank 1 is gone: "):
        send.result()
    assert 2 < turned() < 10, "and later each time"
    assert not w.transports[0]._diallings


def test_rank_that_is_turned_away_may_end_before_it_connects_again(polled: NewPolled) -> None:
    w = polled()
    turned = turn_away(w, 1, 1)
    isend(w.comms[0], b"x", 1)
    w.until(lambda: turned() == 1)
    for _ in range(10):
        w.drivers[0].poll()
    w.close()


def test_rank_without_a_descriptor_to_connect_again_gives_up(
    polled: NewPolled, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = polled()
    turned = turn_away(w, 1, 1)
    send = isend(w.comms[0], b"x", 1, 0, True)
    w.until(lambda: turned() == 1)

    def none_left(*_: object) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("socket.socket", none_left)
    w.engines[0].environment.lost = lambda peer, cause: None  # no other process knows
    with pytest.raises(errors.ProcessFailedError, match="no resources left"):
        w.drivers[0].wait(send)


ADVICE = {
    "tcp": "Permission denied: a rule of this machine forbids it",
    "unix": "Permission denied: the user of this process may not reach the sockets of the job; start it as the same",
}


def forbid(w: PolledWorld, rank: int, code: int = errno.EACCES) -> list[BaseException]:
    """Refuse all connections of a rank, as if it had dropped its privileges. Return the errors that end its job."""

    class Forbidden(socket.socket):
        def connect_ex(self, address: Any) -> int:
            return code

    def connect(peer: Peer, address: Any) -> Link:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("socket.socket", Forbidden)
            return allowed(peer, address)

    allowed = w.transports[rank].connect
    reported: list[BaseException] = []
    w.engines[rank].fatal = reported.append
    w.engines[rank].environment.lost = lambda peer, cause: None  # no other process knows
    w.transports[rank].connect = connect  # type: ignore[method-assign]
    return reported


def test_sends_of_a_rank_that_may_not_connect_fail_at_once(polled: NewPolled, kind: str) -> None:
    w = polled()
    reported = forbid(w, 0)
    sends = [isend(w.comms[0], bytes(size), 1, 0, sync) for size in (10, 60_000, 10**6) for sync in (False, True)]
    for send in sends:
        w.until(send.done)
        with pytest.raises(errors.ProcessFailedError) as caught:
            send.result()
        assert str(caught.value).startswith("rank 1 is gone: cannot connect to it")
        assert f": {ADVICE.get(kind, ADVICE['unix'])}" in str(caught.value)
    assert reported == []


@pytest.mark.parametrize(
    "code", [errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.EADDRNOTAVAIL]
)
def test_sends_to_an_address_that_cannot_be_reached_fail_at_once(polled: NewPolled, code: int) -> None:
    w = polled()
    forbid(w, 0, code)
    send = isend(w.comms[0], bytes(10**6), 1)
    w.until(send.done)
    with pytest.raises(errors.ProcessFailedError, match=f"cannot connect to it.*: {os.strerror(code)}: is the network"):
        send.result()


@pytest.mark.parametrize("finalized", [False, True])
def test_complete_sends_of_a_rank_that_may_not_connect_end_the_job(polled: NewPolled, finalized: bool) -> None:
    """This does not hold if the receiver has finalized, and would not have received them anyway."""
    w = polled()
    for driver in w.drivers:
        driver.background = True
    reported = forbid(w, 0)
    send = isend(w.comms[0], b"x", 1)
    assert send.done()
    if finalized:
        w.engines[0].peer(1).mark_finalized()
    w.until(lambda: not w.links(0, 1))
    assert [str(error) for error in reported] == ([] if finalized else [str(w.engines[0].peer(1).error)])
    assert send.result() is None


def test_rank_with_another_key_cannot_be_reached(polled: NewPolled) -> None:
    w = polled()
    w.engines[0].processes.enrol(NO_NAMESPACE, b"other" * 8, 0)
    send = isend(w.comms[0], bytes(10**6), 1)
    w.until(send.done)
    with pytest.raises(errors.ProcessFailedError, match=r"rank 1 is gone: .*key"):
        send.result()
    assert not w.transports[1].links


def test_no_rank_listens(polled: NewPolled) -> None:
    w = polled()
    w.transports[1].close()
    sends = [isend(w.comms[0], bytes(size), 1, 0, sync) for size in (10, 60_000, 10**6) for sync in (False, True)]
    w.until(lambda: all(send.done() for send in sends))
    for send in sends[1:]:
        with pytest.raises(errors.ProcessFailedError, match="rank 1 is gone: cannot connect to it"):
            send.result()
    assert not w.transports[0].links


@pytest.fixture
def short_backlog(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give listeners room for one connection that is not accepted yet."""

    def shortened(listen: Callable[[Any], tuple[socket.socket, Any]]) -> Callable[[Any], tuple[socket.socket, Any]]:
        def short_listen(self: Any) -> tuple[socket.socket, Any]:
            listener, address = listen(self)
            listener.listen(0)
            return listener, address

        return short_listen

    for cls in STREAMS.values():
        monkeypatch.setattr(cls, "listen", shortened(cls.listen))


@pytest.mark.usefixtures("short_backlog")
def test_full_backlog_ends_with_the_time_limit(polled: NewPolled) -> None:
    w = polled(connect_timeout=0.1)
    with RawPeer(w, 1):
        send = isend(w.comms[0], bytes(10**6), 1)
        while not send.done():
            w.drivers[0].poll()
    with pytest.raises(errors.ProcessFailedError, match=r"rank 1 is gone: .*in time"):
        send.result()
    assert not w.transports[0]._diallings


@pytest.mark.usefixtures("short_backlog")
def test_full_backlog_that_clears_in_time(polled: NewPolled, kind: str) -> None:
    w = polled()
    with RawPeer(w, 1):
        send = isend(w.comms[0], bytes(60_000), 1)
        for _ in range(3):
            w.drivers[0].poll()
        assert not send.done()
        if kind == "tcp":
            w.close()  # the kernel itself repeats the request, after a second
            return
        assert w.finish(irecv(w.comms[1]), send) == [bytes(60_000), None]


def test_listener_that_never_answers_the_hello(polled: NewPolled) -> None:
    w = polled(connect_timeout=0.05)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        w.addresses[1] = [*listener.getsockname()]
        w.transports[0].targets = lambda address: [(socket.AF_INET, tuple(address))]  # type: ignore[method-assign]
        send = isend(w.comms[0], bytes(10**6), 1)
        until = time.monotonic() + 0.2
        while time.monotonic() < until:
            w.poll()
        assert not send.done(), "it may be computing, and the launcher reports if it has ended"
        w.engines[0].peer(1).mark_failed("the launcher says so")
    with pytest.raises(errors.ProcessFailedError, match="rank 1 is gone: the launcher says so"):
        send.result()


def test_a_hello_that_came_while_its_rank_computed_is_not_late(polled: NewPolled) -> None:
    w = polled(connect_timeout=0.05)
    with RawPeer(w, 0) as raw:
        w.until(lambda: bool(w.transports[0]._greetings))
        hello = Connector(KEY, role=ROLE_PEER, rank=1, target=0, channel=raw.channel)
        raw.send(hello.data_to_send())
        time.sleep(0.1)
        w.poll()
        assert raw.receive(1)


def test_a_rank_may_compute_in_the_middle_of_connecting(polled: NewPolled) -> None:
    w = polled(connect_timeout=0.05)
    send = isend(w.comms[0], b"x", 1)
    until = time.monotonic() + 0.2
    while time.monotonic() < until:
        w.drivers[1].poll()
    assert w.finish(irecv(w.comms[1]), send) == [b"x", None]


def test_a_timer_that_comes_too_early_ends_no_hello(polled: NewPolled) -> None:
    """Timers of an event loop that was held up just before do so."""
    w = polled(connect_timeout=30.0)
    with RawPeer(w, 0) as raw:
        w.until(lambda: bool(w.transports[0]._greetings))
        (greeting,) = w.transports[0]._greetings
        greeting._expire()
        raw.greet()
        w.until(lambda: bool(w.transports[0].links))


def test_a_stranger_that_says_nothing_more_is_late(polled: NewPolled) -> None:
    w = polled(connect_timeout=0.05)
    with RawPeer(w, 0) as raw:
        raw.send(Connector(KEY, role=ROLE_PEER, rank=1, target=0, channel=raw.channel).data_to_send()[:5])
        w.until(raw.dropped)


def test_errors_of_signal_handlers_are_not_taken_for_those_of_connections() -> None:
    assert describe(ConnectionResetError(errno.ECONNRESET, "reset")) == "its connection failed: reset"
    with pytest.raises(TimeoutError, match="too slow"):
        describe(TimeoutError("too slow"))
