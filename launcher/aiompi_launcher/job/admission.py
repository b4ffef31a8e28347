"""Which rank a new connection becomes, or why it is refused."""

from __future__ import annotations

from typing import Final

from aiompi.wire import hello
from aiompi.wire.variables import ENV_CONTROL
from aiompi_launcher.job.states import AFTER, JobPhase, JobState, RankState

#: why a process cannot become a member
NOT_OPEN: Final = "the number of its ranks is fixed: be one of them by aiompi.init(address, key)"


class Refused(Exception):
    """A connection cannot become a rank of the job; the message says why."""


def admit(job: JobState, wanted: int, pid: int) -> int:
    """Return the number of the rank that a new connection becomes.

    Args:
        job: the job.
        wanted: rank that the connection claims to be; RANK_ANY for the lowest free rank.
        pid: id of the process at the other end of the connection.

    Raises:
        Refused: there is no such rank, or it is taken.
    """
    if wanted == hello.RANK_ANY:
        wanted = _lowest_free(job)
    first, last = job.ranks[0].number, job.ranks[-1].number
    if not first <= wanted <= last:
        raise Refused(f"there is no rank {wanted} in this job, only {first} to {last}")
    rank = job.rank(wanted)
    again = rank.state in AFTER and not rank.connected and not job.world.universe
    if rank.state is not RankState.EXPECTED and not again:
        if job.spawned and pid == rank.joiner:
            raise Refused(
                f"this process is rank {wanted} already: a program joins its job by aiompi.run, aiompi.init, or "
                "the first use of a communicator of aiompi.MPI, and again only after it has finalized"
            )
        raise Refused(
            f"rank {wanted} has joined already; a process that a rank starts can join in its place only after the "
            "rank has finalized. If a server starts several workers (uvicorn --workers), let each be a member of "
            "a job that is open: aiompi-launch --serve, and aiompi.join. If the process is to be no rank, remove "
            f"{ENV_CONTROL} from its environment"
        )
    if job.phase is not JobPhase.RUNNING:
        raise Refused("the job is ending")
    rank.state = RankState.EXPECTED
    return wanted


def _lowest_free(job: JobState) -> int:
    if job.spawned:
        raise Refused("this job is not open: its ranks are started by the launcher (compare --serve)")
    for rank in job.ranks:
        if rank.state is RankState.EXPECTED:
            return rank.number
    raise Refused(f"the job is complete: all its {len(job.ranks)} ranks have joined already")
