"""A rank that leaves alone."""

from __future__ import annotations

from jobs import Site, in_face


def test_leaving_alone(site: Site) -> None:
    """What it sent arrives, nobody waits for it, and who still wants something of it is told."""
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
        "rank 1 has finalized and will send nothing more",
    ]
