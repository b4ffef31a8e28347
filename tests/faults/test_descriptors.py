"""A rank has too few descriptors: nobody waits without end for what cannot come, in both faces."""

from __future__ import annotations

from typing import Final

import pytest
from jobs import FACES, Result, Site, in_face

PROGRAM: Final = """
import resource
if comm.rank == 0:
    await comm.recv(source=1)
    free = os.dup(0)  # new descriptors are the lowest that are free
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + {count}, free + {count}))
    await comm.send("now", dest=1)
    await comm.recv()
elif comm.rank == 1:
    await comm.send("hello", dest=0)
    await comm.recv(source=0)
    await comm.send("now", dest=2)
    await comm.recv()
else:
    await comm.recv(source=1)
    request = comm.isend("never arrives", dest=0)
    await comm.recv()
"""


def run(site: Site, face: str, count: int, **env: str) -> Result:
    """Three ranks, of which one cannot connect with another as it has no more than so many descriptors for it."""
    result = site.run(3, in_face(face, PROGRAM.format(count=count)), env=env)
    assert (result.code, result.out) == (1, "")
    return result


@pytest.mark.parametrize("face", FACES)
def test_who_receives_from_anybody_is_told_that_one_cannot_send(site: Site, face: str) -> None:
    result = run(site, face, 1, AIOMPI_TRANSPORTS="loopback,shared_memory")
    cause = "rank 2 is gone: this process has no resources left for its connection: Too many open files"
    assert f"aiompi-launch: rank 0 failed: ProcessFailedError: {cause}" in result.err
