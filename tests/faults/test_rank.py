"""A rank fails: the job ends with it, at once, for the right reason, in both faces."""

from __future__ import annotations

import dataclasses
from typing import Final

import pytest

from support.jobs import FACES, Site, in_face


@dataclasses.dataclass(frozen=True)
class Fault:
    """The failure of rank 1 of three, the exit code of the job, and the first line of the launcher about it."""

    body: str
    code: int
    verdict: str


FAULTS: Final = {
    "raises while others wait": Fault(
        """
        if comm.rank == 1:
            for source in (0, 2):
                await comm.recv(source=source)
            raise KeyError("lost")
        await comm.send(None, dest=1)
        await comm.recv(source=1)
        """,
        1,
        "rank 1 failed: KeyError: 'lost'",
    ),
    "exits with status 3": Fault(
        """
        if comm.rank == 1:
            sys.exit(3)
        await comm.Barrier()
        """,
        3,
        "rank 1 exited with status 3",
    ),
    "is killed in a collective": Fault(
        """
        if comm.rank == 1:
            for source in (0, 2):
                await comm.recv(source=source)
            os.kill(os.getpid(), signal.SIGKILL)
        await comm.send(None, dest=1)
        await comm.Barrier()
        """,
        128 + 9,
        "rank 1 was killed by signal 9 (SIGKILL)",
    ),
    "is killed in a transfer": Fault(
        """
        # When rank 1 reads the last message it has begun to send what rank 0 has asked for, and cannot finish.
        if comm.rank == 1:
            await comm.send(os.getpid(), dest=0)
            transfer = comm.Isend(bytes(2**26), dest=0)
            await comm.recv(source=0)
            os.kill(os.getpid(), signal.SIGKILL)
        if comm.rank == 0:
            victim = os.pidfd_open(await comm.recv(source=1))
            await comm.Probe(source=1)
            transfer = comm.Irecv(bytearray(2**26), source=1)
            await comm.send(None, dest=1)
            select.select([victim], [], [])
        await comm.recv(source=1)
        """,
        128 + 9,
        "rank 1 was killed by signal 9 (SIGKILL)",
    ),
    "ends while a peer waits": Fault(
        """
        if comm.rank == 0:
            await comm.recv(source=1)
        """,
        1,
        "rank 0 failed: ProcessFailedError: rank 1 has finalized: it sends and receives nothing more",
    ),
    "ends while others are in a collective": Fault(
        """
        if comm.rank != 1:
            await comm.allreduce(comm.rank)
        """,
        1,
        "failed: ProcessFailedError: rank 1 has finalized: it sends and receives nothing more",
    ),
    "ends with a message to it on the way": Fault(
        """
        if comm.rank == 0:
            await comm.ssend("nobody will receive this", dest=1)
        """,
        1,
        "rank 0 failed: ProcessFailedError: rank 1 has finalized: it sends and receives nothing more",
    ),
    "calls Abort": Fault(
        """
        if comm.rank == 1:
            for source in (0, 2):
                await comm.recv(source=source)
            comm.Abort(7)
        await comm.send(None, dest=1)
        await comm.Barrier()
        """,
        7,
        "rank 1 called MPI_Abort(7)",
    ),
}


#: what the launcher sees, and what others wait for, is the same in both faces
BLOCKING: Final = {"is killed in a collective", "ends while a peer waits", "ends with a message to it on the way"}


@pytest.mark.spec("S7.5-6")
@pytest.mark.parametrize("name", FAULTS)
def test_fault(site: Site, name: str) -> None:
    fault = FAULTS[name]
    result = site.run(3, in_face("blocking" if name in BLOCKING else "native", fault.body))
    told = [line for line in result.err.splitlines() if line.startswith("aiompi-launch: ")]
    assert fault.verdict in told[0], result
    assert result.code == fault.code
    assert result.out == ""


@pytest.mark.parametrize("face", FACES)
def test_traceback_comes_once_and_before_the_end(site: Site, face: str) -> None:
    """The output of the rank contains it when the launcher ends the job for this reason."""
    output = site.directory / "output"
    program = """
    if comm.rank == 1:
        raise KeyError("lost")
    await comm.Barrier()
    """
    result = site.launch("-n", "3", "--output-dir", str(output), site.program(in_face(face, program))).finish()
    printed = (output / "rank.1.err").read_text()
    assert printed.count("Traceback (most recent call last):") == 1
    assert printed.endswith("KeyError: 'lost'\n")
    assert "    KeyError: 'lost'" in result.err.splitlines()
    told = [line for line in result.err.splitlines() if line.startswith("aiompi-launch: ")]
    assert "rank 1 failed: KeyError: 'lost'" in told[0]
    assert (result.code, result.out) == (1, "")


#: addresses that nothing has, of ranks 1 and 2
ODD_CARDS = """
import os
from aiompi.transport.sockets import Unix

listen = Unix.listen
added = {"1": "\\ud800", "2": "x" * 200}.get(os.environ["AIOMPI_RANK"], "")

def oddly(transport):
    listener, (name, identity) = listen(transport)
    return listener, [name + added, identity]

Unix.listen = oddly
"""


def test_a_rank_whose_card_is_odd_cannot_be_reached(site: Site) -> None:
    program = """
    if comm.rank == 0:
        for dest in (1, 2, 1, 2):
            try:
                await comm.send("x", dest=dest)
            except aiompi.MPIError as error:
                print(type(error).__name__, str(error).partition(":")[0], flush=True)
        os._exit(0)
    await comm.recv(source=0)
    """
    result = site.run(3, ODD_CARDS + in_face("native", program), env={"AIOMPI_TRANSPORTS": "unix"})
    assert result.lines == [f"OtherError rank {dest} cannot be reached" for dest in (1, 1, 2, 2)]
