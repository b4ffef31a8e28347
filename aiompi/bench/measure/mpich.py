"""The collectives in mpi4py; run by mpiexec on any number of ranks."""

from __future__ import annotations

from collections.abc import Iterator
from multiprocessing.connection import Client, Connection, Listener

from mpi4py import MPI

from aiompi.bench.measure import calls, turns


def main() -> None:
    """Do one work after the other.

    A rank that waits in MPI spins, and would take a core away from the other contender in its turn. Therefore works
    are handed on through sockets, in which a rank sleeps.
    """
    comm = MPI.COMM_WORLD
    if comm.Get_rank():
        with Client(comm.bcast(None)) as leader:
            _follow(comm, leader)
        return
    with Listener(family="AF_UNIX") as listener:
        comm.bcast(listener.address)
        followers = [listener.accept() for _ in range(comm.Get_size() - 1)]
    while work := turns.next_work():
        for follower in followers:
            follower.send(work)
        turns.answer(comm.gather(_do(comm, work)))
    for follower in followers:
        follower.close()


def _follow(comm: MPI.Intracomm, leader: Connection) -> None:
    for work in _works(leader):
        comm.gather(_do(comm, work))


def _works(leader: Connection) -> Iterator[turns.Work]:
    while True:
        try:
            yield leader.recv()
        except EOFError:
            return


def _do(comm: MPI.Intracomm, work: turns.Work) -> object:
    arguments = dict(work)
    return calls.WORKS[arguments.pop("work")](comm, **arguments)


if __name__ == "__main__":
    main()
