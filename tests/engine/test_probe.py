"""Probing for messages (section 3.8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aiompi import errors
from aiompi.comm import Communicator, Group
from aiompi.constants import ANY_SOURCE, ANY_TAG
from aiompi.wire import frame
from support.worlds import LIMIT, LocalWorld, WireWorld, irecv, isend, pattern

NewWorld = Callable[..., Any]


@pytest.mark.spec("S3.8-1", "S3.8-3", "S3.8-4", "S3.8-5", "S3.8-6", "S3.2.5-3")
def test_iprobe_tells_what_a_receive_would_get(world: NewWorld) -> None:
    w = world(3)
    assert w.comms[2].iprobe(ANY_SOURCE, ANY_TAG) is None
    sent = [(0, 5, 0), (1, 6, 5000), (0, 6, 10), (0, 5, 700)]
    for source, tag, size in sent:
        isend(w.comms[source], pattern(size), 2, tag)
        w.run()
    for source, tag in ((ANY_SOURCE, ANY_TAG), (0, ANY_TAG), (ANY_SOURCE, 6), (0, 5), (0, 6), (1, 6)):
        first = next(m for m in sent if source in (ANY_SOURCE, m[0]) and tag in (ANY_TAG, m[1]))
        for status in (w.comms[2].iprobe(source, tag), w.comms[2].probe(source, tag).result()):
            assert status is not None
            assert (status.source, status.tag, status.Get_count()) == first
    assert w.comms[2].iprobe(1, 5) is None
    while sent:
        status = w.comms[2].iprobe(ANY_SOURCE, ANY_TAG)
        receive = irecv(w.comms[2], status.source, status.tag)
        w.run()
        assert receive.result() == pattern(sent.pop(0)[2])


@pytest.mark.spec("S3.8-7", "S3.8-9")
@pytest.mark.parametrize("size", [0, 50, 5000])
def test_probe_waits_for_a_message_and_does_not_complete_its_send(world: NewWorld, size: int) -> None:
    w = world()
    probes = [w.comms[1].probe(0, 3), w.comms[1].probe(ANY_SOURCE, ANY_TAG)]
    other = w.comms[1].probe(0, 4)
    send = isend(w.comms[0], pattern(size), 1, 3, sync=True)
    w.run()
    for probe in probes:
        status = probe.result()
        assert (status.source, status.tag, status.nbytes) == (0, 3, size)
    assert not send.done()
    assert not other.done()
    receive = irecv(w.comms[1], 0, 3)
    w.run()
    assert send.done()
    assert receive.result() == pattern(size)
    assert other.cancel()
    assert other.result().cancelled
    assert not other.cancel()


@pytest.mark.spec("S3.8-8")
@pytest.mark.parametrize("size", [50, 5000])
def test_matched_message_is_not_probed(world: NewWorld, size: int) -> None:
    w = world()
    receive = irecv(w.comms[1], 0, 3)
    probe = w.comms[1].probe(0, 3)
    isend(w.comms[0], pattern(size), 1, 3)
    w.run()
    assert receive.done()
    assert not probe.done()
    assert w.comms[1].iprobe(0, 3) is None


@pytest.mark.spec("S3.8-2")
def test_probe_sees_a_message_whose_payload_is_on_its_way() -> None:
    w = WireWorld(2, eager_limit=LIMIT)
    isend(w.comms[0], pattern(LIMIT), 1, 3)
    w.run_wire(0, 1, frame.HEADER_BYTES + 10)
    status = w.comms[1].iprobe(0, 3)
    assert status is not None
    assert status.nbytes == LIMIT
    receive = irecv(w.comms[1], 0, 3)
    assert not receive.done()
    w.run()
    assert receive.result() == pattern(LIMIT)


@pytest.mark.parametrize("finalized", [False, True])
def test_operations_of_any_source_fail_when_a_rank_dies_that_had_not_finalized(finalized: bool) -> None:
    """The message that they want may be one of that rank."""
    w = LocalWorld(3)
    comm, peer = w.comms[1], w.engines[1].peer(0)
    others = Communicator(w.engines[1], Group.of([1, 2], 1), 6, "OTHERS")
    waiting, spared = [irecv(comm, ANY_SOURCE, 1), comm.probe(ANY_SOURCE, 1)], [irecv(others)]
    isend(w.comms[2], b"early", 1, 2)
    w.run()
    peer.mark_closed() if finalized else peer.mark_failed("a test")
    assert irecv(comm).result() == b"early"
    waiting += [irecv(comm), comm.probe(ANY_SOURCE, ANY_TAG)]
    spared += [irecv(others), irecv(comm, 2), others.probe(ANY_SOURCE, ANY_TAG)]
    assert not any(request.done() for request in spared)
    assert [request.done() for request in waiting] == [not finalized] * 4
    if finalized:
        assert comm.iprobe(ANY_SOURCE, ANY_TAG) is None
        return
    for request in waiting:
        with pytest.raises(errors.ProcessFailedError, match="rank 0 is gone: a test"):
            request.result()
    with pytest.raises(errors.ProcessFailedError, match="rank 0 is gone: a test"):
        comm.iprobe(ANY_SOURCE, ANY_TAG)
    peer.mark_closed()  # the agent has reported it since
    assert not irecv(comm).done()
