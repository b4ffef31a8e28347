"""A peer that has the key sends frames that no rank sends, over each transport. Only its own link breaks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from frames import Header
from worlds import PolledWorld, irecv, isend

from aiompi import errors
from aiompi.comm import Communicator, Group
from aiompi.constants import ANY_SOURCE
from aiompi.engine import Peer
from aiompi.wire import frame
from aiompi.wire.frame import HEADER

Polled = Callable[..., PolledWorld]

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


@pytest.mark.parametrize("frame_kind", [frame.EAGER, frame.EAGER_SYNC, frame.EAGER_READY, frame.RTS, frame.RTS_READY])
@pytest.mark.parametrize("context", [0, 1], ids=["point-to-point", "collective"])
@pytest.mark.parametrize("source", [-2, -1, 1, 2, 7, 8, 2**31 - 1])
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
    w.until(lambda: len(w.engines[1].matcher(context).arrivals) == 2)
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
    w.until(lambda: len(w.engines[1].matcher(11).arrivals) == 1)
    hurl(w, Header(frame.EAGER, source=1, context=10))
    breaks(w, "rank 0 sent a message as source 1 of context 10")


def test_rank_that_is_no_member_is_refused(polled: Polled) -> None:
    w = polled(3)
    Communicator(w.engines[1], Group.of([1, 2], 1), 10, "OTHERS")
    hurl(w, Header(frame.RTS, source=0, context=10, srqid=1))
    breaks(w, "rank 0 sent a message as source 0 of context 10")
