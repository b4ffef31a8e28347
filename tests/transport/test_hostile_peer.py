"""A peer that has the key sends frames that no rank sends, over each transport. Only its own link breaks."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aiompi import core, errors
from aiompi.comm import Communicator, Group
from aiompi.constants import ANY_SOURCE
from aiompi.engine import Peer
from aiompi.engine import peer as peer_module
from aiompi.transport.stream import MAX_LINKS
from aiompi.wire import frame
from aiompi.wire.frame import HEADER
from support.frames import Header
from support.jobs import NEAREST
from support.worlds import PolledWorld, irecv, isend

Polled = Callable[..., PolledWorld]


@pytest.fixture(params=[*{"unix": None, NEAREST: None}])
def kind(request: pytest.FixtureRequest) -> str:
    """Frames come through a stream, as over TCP, or through a ring."""
    return str(request.param)


#: bounds that a test reaches soon
FEW = 20


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    for bound in ("MAX_ANNOUNCED", "MAX_CONTEXTS"):
        monkeypatch.setattr(f"aiompi.engine.peer.{bound}", FEW)


def hurl(w: PolledWorld, *headers: Header, payload: bytes = b"") -> None:
    """Let rank 0 send frames to rank 1 that its engine does not know of."""
    peer = w.engines[0].peer(1)
    assert isinstance(peer, Peer)
    link = peer.link or peer.connect()
    for header in headers:
        link.send(HEADER.pack(*header), (payload,) if payload else (), None)


def breaks(w: PolledWorld, cause: str) -> None:
    """Rank 1 gives rank 0 up for this cause, and ranks 1 and 2 go on."""
    w.until(lambda: w.engines[1].peer(0).error is not None)
    assert cause in str(w.engines[1].peer(0).error)
    goes_on(w)


def goes_on(w: PolledWorld) -> None:
    """Ranks 1 and 2 go on."""
    for source, dest in ((1, 2), (2, 1)):
        for nbytes in (5, 10**5):
            receive = irecv(w.comms[dest], source, 3)
            isend(w.comms[source], bytes(nbytes), dest, 3)
            assert w.finish(receive) == [bytes(nbytes)]


def test_announcements_are_bounded(polled: Polled) -> None:
    w = polled(3)
    hurl(w, *(Header(frame.RTS, length=10**9, srqid=1 + i) for i in range(FEW + 1)))
    breaks(w, f"rank 0 announced {FEW} messages that this rank has not received, and another one")
    assert not w.comms[1].matcher.arrivals


@pytest.mark.parametrize("frame_kind", [frame.EAGER, frame.RTS])
def test_contexts_that_messages_open_are_bounded(polled: Polled, frame_kind: int) -> None:
    w = polled(3)
    hurl(w, *(Header(frame_kind, context=10 + i, srqid=1 + i) for i in range(FEW + 1)))
    breaks(w, f"rank 0 sent messages on {FEW} communicators that this rank does not have, and on another one")


@pytest.mark.parametrize(
    ("frame_kind", "source"),
    [
        *zip(
            itertools.cycle([frame.EAGER, frame.EAGER_SYNC, frame.EAGER_READY, frame.RTS, frame.RTS_READY]),
            [-2, -1, 1, 2, 7, 8, 2**31 - 1],
            strict=False,
        )
    ],
)
@pytest.mark.parametrize("context", [0, 1], ids=["point-to-point", "collective"])
def test_source_of_another_rank_is_refused(polled: Polled, frame_kind: int, context: int, source: int) -> None:
    w = polled(3)
    honest = irecv(w.comms[1], 2, 0)
    unspecific = irecv(w.comms[1], ANY_SOURCE, 1)
    for tag in (0, 1, 2):
        hurl(w, Header(frame_kind, tag, source, context=context, srqid=1))
    breaks(w, f"rank 0 sent a message as source {source} of context {context}, which it is not")
    isend(w.comms[2], b"honest", 1, 0)
    assert w.finish(honest) == [b"honest"]
    assert isinstance(unspecific.exception(), errors.ProcessFailedError), "it may have wanted a message of rank 0"


def test_source_of_another_rank_is_refused_before_its_payload_is_there(polled: Polled) -> None:
    w = polled(3)
    hurl(w, Header(frame.EAGER, source=2, length=50_000), payload=bytes(50_000))
    breaks(w, "rank 0 sent a message as source 2 of context 0")


@pytest.mark.parametrize("frame_kind", [frame.EAGER, frame.EAGER_SYNC, frame.RTS])
@pytest.mark.parametrize("collective", [0, 1], ids=["point-to-point", "collective"])
def test_source_of_another_rank_is_refused_once_there_is_a_communicator(
    polled: Polled, frame_kind: int, collective: int
) -> None:
    """Messages may come before it; those with the right source are kept."""
    w = polled(3)
    context = 10 + collective
    hurl(w, *(Header(frame_kind, source=source, context=context, srqid=1 + source) for source in (0, 1)))
    w.until(lambda: w.engines[1].matcher(context).arrivals == 2)
    assert w.engines[1].peer(0).error is None
    Communicator(w.engines[1], Group.of([2, 0, 1], 1), 10, "OTHER")
    breaks(w, f"rank 0 sent a message as source 0 of context {context}")
    kept = [message.source for message in w.engines[1].matcher(context).unexpected()]
    assert kept == ([] if frame_kind == frame.RTS else [1]), "an announced message does not come any more"


def test_negative_source_is_refused_before_there_is_a_communicator(polled: Polled) -> None:
    w = polled(3)
    hurl(w, Header(frame.EAGER, source=-1, context=10))
    breaks(w, "rank 0 sent a message as source -1 of context 10")


def test_sources_of_an_intercommunicator_are_those_of_the_remote_group(polled: Polled) -> None:
    w = polled(3)
    Communicator(w.engines[1], Group.of([1, 2], 1), 10, "INTER", Group.of([0]))
    hurl(w, Header(frame.EAGER, source=0, context=10), Header(frame.EAGER, source=0, context=11))
    w.until(lambda: w.engines[1].matcher(11).arrivals == 1)
    hurl(w, Header(frame.EAGER, source=1, context=10))
    breaks(w, "rank 0 sent a message as source 1 of context 10")


def test_rank_that_is_no_member_is_refused(polled: Polled) -> None:
    w = polled(3)
    Communicator(w.engines[1], Group.of([1, 2], 1), 10, "OTHERS")
    hurl(w, Header(frame.RTS, source=0, context=10, srqid=1))
    breaks(w, "rank 0 sent a message as source 0 of context 10")


#: numbers at the ends of what a field can hold, and of what is sent
NUMBERS = [0, 1, 2, 2**16, 2**23, 2**31, 2**32, 2**63, 2**64 - 1]
SIGNED = [-(2**31), -1, 0, 1, 2**31 - 1]
headers = st.builds(
    Header,
    (st.integers(0, 20) | st.integers(0, 255)).filter(lambda kind: kind != frame.REVOKE),  # which any member may send
    tag=st.sampled_from(SIGNED),
    source=st.sampled_from(SIGNED),
    credit=st.sampled_from([0, 1, 2**32 - 1]),
    context=st.sampled_from(NUMBERS),
    length=st.sampled_from(NUMBERS),
    srqid=st.integers(0, 8) | st.sampled_from(NUMBERS),
    drqid=st.integers(0, 8) | st.sampled_from(NUMBERS),
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(headers=st.lists(headers, min_size=1, max_size=20))
def test_no_frame_raises_in_calls_that_have_nothing_to_do_with_it(polled: Polled, headers: list[Header]) -> None:
    w = polled(3, single_copy=True)
    for nbytes in (10, 100_000, 4 * 2**20):
        irecv(w.comms[1], 0, nbytes)
        isend(w.comms[1], bytes(nbytes), 0)
        isend(w.comms[1], bytes(nbytes), 0, sync=True)
    hurl(w, *headers)
    goes_on(w)


@pytest.mark.parametrize("handler", [int, len, iter, struct.unpack], ids=["int", "len", "iter", "unpack"])
def test_whatever_goes_wrong_with_a_frame_breaks_its_connection_once(
    polled: Polled, handler: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(peer_module._HANDLERS, frame.CANCELNO, handler)
    w, lost = polled(3), []
    monkeypatch.setattr(w.engines[1].environment, "lost", lambda peer, cause: lost.append((peer.rank, cause)))
    hurl(w, *[Header(frame.CANCELNO)] * 3)
    w.until(lambda: lost)
    goes_on(w)
    ((rank, cause),) = lost
    assert rank == 0
    assert cause.startswith("what has come from it cannot be handled (TypeError: ")


def test_an_error_of_a_signal_handler_is_not_blamed_on_the_peer(
    polled: Polled, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise TimeoutError("a signal handler")

    monkeypatch.setitem(peer_module._HANDLERS, frame.CANCELNO, interrupted)
    w = polled(3)
    hurl(w, Header(frame.CANCELNO))
    with pytest.raises(TimeoutError, match="a signal handler"):
        w.until(lambda: False)
    receive = irecv(w.comms[1], 0, 3)
    isend(w.comms[0], b"goes on", 1, 3)
    assert w.finish(receive) == [b"goes on"]


@pytest.fixture
def few_unread(monkeypatch: pytest.MonkeyPatch) -> int:
    """Return the bound of the frames that wait for a peer, which a test reaches soon."""
    bound = 1000
    monkeypatch.setattr("aiompi.transport.connection.MAX_UNREAD", bound)
    if core.form == "native":
        monkeypatch.setattr("aiompi.transport.shared_memory.link.MAX_UNREAD", bound)
    monkeypatch.setattr("aiompi.transport.unread.MAX_UNREAD", bound)
    return bound


#: what a rank answers, over the nearest transport; over others, whose buffers hold more, one of them is enough
ANSWERED = {
    "recalls": [Header(frame.CANCEL, srqid=5)],
    "short messages in ready mode": [Header(frame.EAGER_READY, srqid=5)],
    "long messages in ready mode": [Header(frame.RTS_READY, srqid=5)],
    "questions": [Header(frame.WITHHELD, length=1), Header(frame.WITHHELD)],
}


@pytest.mark.parametrize(
    ("kind", "name"), [*((NEAREST, name) for name in ANSWERED), ("unix", "recalls"), ("tcp", "questions")]
)
def test_answers_that_a_peer_does_not_read_are_bounded(polled: Polled, kind: str, few_unread: int, name: str) -> None:
    w = polled(3)
    headers = ANSWERED[name]
    receives = [irecv(w.comms[1], 0, 100 + tag) for tag in range(FEW)]
    hurl(w, Header(frame.PROTOACK))
    w.until(lambda: bool(w.links(1, 0)))
    (mute,), (link,) = w.links(0, 1), w.links(1, 0)
    assert mute._socket is not None
    for fd in (mute._socket.fileno(), *([mute._segment.doorbell] if kind == "shared_memory" else [])):
        w.drivers[0].remove_reader(fd)  # rank 0 only writes
    longest = 0
    while link in w.transports[1].links:
        if mute.idle:
            hurl(w, *headers * 100)
        elif kind == "shared_memory":
            mute._flush(2**20)  # its doorbell would have called this
        w.poll()
        longest = max(longest, len(link._queue))
    breaks(w, f"it does not read what is sent to it: {few_unread} frames")
    assert longest < few_unread
    assert all(isinstance(receive.exception(), errors.ProcessFailedError) for receive in receives)


def test_answers_that_a_peer_reads_do_not_count(polled: Polled, few_unread: int) -> None:
    w = polled(3)
    for _ in range(3 * few_unread // 100):
        hurl(w, *[Header(frame.CANCEL, srqid=5)] * 100)
        receive = irecv(w.comms[1], 0, 1)
        isend(w.comms[0], b"read", 1, 1)
        w.finish(receive)
    assert w.engines[1].peer(0).error is None


def test_a_peer_returns_no_more_credit_than_was_spent(polled: Polled) -> None:
    """Otherwise sends to it would be complete at once, and their copies would pile up here."""
    w = polled(3)
    hurl(w, *[Header(frame.PROTOACK, credit=2**32 - 1)] * 10)
    isend(w.comms[0], b"last", 1)
    w.finish(irecv(w.comms[1], 0))
    assert w.engines[1].peer(0).credit == w.settings.eager_window


def test_connections_of_one_peer_are_bounded(polled: Polled) -> None:
    """Otherwise one rank could use up the descriptors of another one, which then ends."""
    w = polled(3)
    peer = w.engines[0].peer(1)
    assert isinstance(peer, Peer)
    for _ in range(3 * MAX_LINKS):
        w._connect(0, peer)
    w.until(lambda: len(w.links(0, 1)) == MAX_LINKS)
    assert len(w.links(1, 0)) == MAX_LINKS
    goes_on(w)
