"""Messages between clients: the engine over packets, in small pieces and in any order of events."""

from __future__ import annotations

import pytest
from impi_worlds import ImpiWorld
from worlds import irecv, isend, pattern

from aiompi.constants import PROC_NULL

LIMITS = {"datalen": 100, "ackmark": 2, "hiwater": 3}
CUTS = [1, 7, 2**30]


@pytest.mark.spec("I3.1-2", "I3.5-15", "I3.7.2-9")
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("shape", [[1, 1], [2, 1], [1, 2, 3], [[1, 2], 1]])
def test_messages_of_every_rank_to_every_rank(shape: list[int], cut: int) -> None:
    world = ImpiWorld(shape, cut=cut, seed=cut, limits=LIMITS)
    ranks = range(world.universe.size)
    sizes = (0, 1, 100, 101, 350)
    sends = [
        isend(world.comms[source], pattern(nbytes, source), dest, tag=dest)
        for nbytes in sizes for source in ranks for dest in ranks
    ]  # fmt: skip
    receives = [[irecv(world.comms[dest], source) for source in ranks for _ in sizes] for dest in ranks]
    world.run()
    for own in receives:
        expected = [pattern(nbytes, source) for source in ranks for nbytes in sizes]
        assert [request.result() for request in own] == expected
    for send in sends:
        send.result()
    assert all(not engine.sends for engine in world.engines)


@pytest.mark.spec("I1.1-5", "I3.5-18")
def test_messages_within_a_client_are_no_packets() -> None:
    world = ImpiWorld([2, 1], limits=LIMITS)
    requests = [irecv(world.comms[dest], 0) for dest in (0, 1)]
    for dest in (0, 1):
        isend(world.comms[0], b"near", dest)
    isend(world.comms[0], b"nobody", PROC_NULL)
    world.run()
    assert [request.result() for request in requests] == [b"near", b"near"]
    assert world.relay.packets == []
