"""A rank that leaves alone."""

from __future__ import annotations

import pytest
from jobs import Site, in_face


def test_leaving_alone(site: Site) -> None:
    """Its messages arrive, no rank waits for it, and ranks that still need it get an error."""
    program = """
    if comm.rank == 1:
        await comm.send("farewell", dest=0)
        await comm.leave()
        return
    print(await comm.recv(source=1))
    try:
        await comm.recv(source=1)
    except aiompi.ProcessFailedError as error:
        print(error)
    """
    assert site.ok(2, in_face("native", program)).lines == [
        "farewell",
        "rank 1 has finalized: it sends and receives nothing more",
    ]


@pytest.mark.parametrize("nbytes", [10**3, 10**5, 3 * 10**6])
@pytest.mark.parametrize("freed", ["", "request.free()"])
def test_what_was_sent_arrives_before_a_rank_leaves(site: Site, nbytes: int, freed: str) -> None:
    """Also a message that its receiver must ask for; but for none of its own it waits."""
    program = f"""
    import asyncio
    if comm.rank == 1:
        for dest in (0, 1):
            request = comm.isend(bytes({nbytes}), dest=dest)
            {freed}
        await comm.leave()
        return
    await asyncio.sleep(0.1)
    print(len(await comm.recv(source=1)))
    await comm.leave()
    """
    assert site.ok(2, in_face("native", program)).lines == [str(nbytes)]


def test_a_receive_that_is_dropped_when_the_interpreter_ends(site: Site) -> None:
    """Nobody runs any more by then, and there is nothing to be undone."""
    program = """
    global kept
    kept = comm.recv(source=1 - comm.rank)
    """
    result = site.ok(2, in_face("native", program))
    assert (result.out, result.err) == ("", "")
