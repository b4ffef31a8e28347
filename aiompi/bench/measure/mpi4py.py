"""The works in mpi4py, with the MPI library that the environment names. The launcher of that library runs this."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Client, Connection, Listener
from typing import Any, Final, TypeAlias

from mpi4py import MPI
from mpi4py.util import pkl5

from aiompi.bench.measure import calls, datatypes, point_to_point, storage, turns

Works: TypeAlias = Mapping[str, Callable[..., Any]]


def objects_pkl5(comm: MPI.Intracomm, **arguments: Any) -> list[float]:
    """Seconds per round trip of an object whose arrays are sent out of band."""
    return point_to_point.objects(MPI, pkl5.Intracomm(comm), **arguments)


WORKS: Final[Works] = {
    **point_to_point.works(MPI), **datatypes.works(MPI), **storage.works(MPI), **calls.WORKS,
    objects_pkl5.__name__: objects_pkl5,
}  # fmt: skip
#: the works of mpi4py.util.pkl5, by the names of the works of mpi4py.MPI
PKL5: Final[Works] = {"bind": calls.bind, "objects": objects_pkl5}


def main(of: str = "") -> None:
    """Do one work after the other.

    Args:
        of: "pkl5" for the works of mpi4py.util.pkl5; empty for the works of mpi4py.MPI.

    A rank that waits in MPI spins: it would take a core away from the contender whose turn it is. So rank 0 sends the
    name and arguments of each measurement to the other ranks through sockets, where a waiting rank sleeps.
    """
    comm, works = MPI.COMM_WORLD, PKL5 if of else WORKS
    if comm.Get_rank():
        with Client(comm.bcast(None)) as leader:
            _follow(comm, works, leader)
        return
    with Listener(family="AF_UNIX") as listener:
        comm.bcast(listener.address)
        followers = [listener.accept() for _ in range(comm.Get_size() - 1)]
    while work := turns.next_work():
        for follower in followers:
            follower.send(work)
        turns.answer(comm.gather(_do(comm, works, work)))
    for follower in followers:
        follower.close()


def _follow(comm: MPI.Intracomm, works: Works, leader: Connection) -> None:
    for work in _told(leader):
        comm.gather(_do(comm, works, work))


def _told(leader: Connection) -> Iterator[turns.Work]:
    while True:
        try:
            yield leader.recv()
        except EOFError:
            return


def _do(comm: MPI.Intracomm, works: Works, work: turns.Work) -> object:
    arguments = dict(work)
    return works[arguments.pop("work")](comm, **arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
