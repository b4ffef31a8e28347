"""A rank has too few descriptors: no rank waits forever."""

from __future__ import annotations

import pytest

from support.jobs import FACES, Site, in_face


def test_a_rank_without_descriptors_gets_an_error_from_the_call_that_connects(site: Site) -> None:
    """The call raises an MPI error that says what to do."""
    program = """
    import resource
    if comm.rank == 0:
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, free))
        for call in (lambda: comm.send("x", dest=1), lambda: comm.barrier()):
            try:
                await call()
            except aiompi.MPI.OtherError as error:
                print(error, flush=True)
        os._exit(0)
    await comm.recv()
    """
    result = site.run(2, in_face("native", program))
    told = "rank 1 cannot be reached: this process has no resources left for its connection: Too many open files"
    assert [line.partition("; ")[0] for line in result.lines] == [told] * 2


@pytest.mark.parametrize("face", FACES)
def test_a_rank_that_cannot_accept_warns_and_does_not_keep_others_waiting(site: Site, face: str) -> None:
    program = """
    import contextlib, resource, time
    if comm.rank == 1:
        from aiompi.objects import arrays  # no file can be read later
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, free))
        with contextlib.suppress(OSError):
            while True:
                os.dup(0)  # numbers below that are free, too
        os.mkdir("exhausted")
        try:
            await comm.recv(source=0)
        except aiompi.MPI.OtherError as error:
            print(error, flush=True)
            os._exit(3)
    while not os.path.exists("exhausted"):
        time.sleep(0.01)
    await comm.ssend("x", dest=1)
    """
    result = site.run(2, in_face(face, program), env={"AIOMPI_CONNECT_TIMEOUT": "1.5"})
    told = "rank 1 cannot take the connection of another rank: this process has no resources left for its connection: "
    (line,) = result.lines
    assert line.startswith(told)
    assert line.endswith("It has been so for 1.5 s (connect_timeout)")
    assert f"RuntimeWarning: {told}" in result.err
    assert result.code == 3
