"""The examples of chapter 5 of MPI-1.1, in the blocking face.

Each runs on all processes of a job that has at least as many as it needs. Prints how many have been run.
"""

from __future__ import annotations

from typing import Any

from table import EXAMPLES, comm, example, rank, size

from aiompi import MPI


@example(1)
def example_5_5_1() -> None:
    assert (MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()) == (rank, size)
    if rank % 2 == 0 and rank + 1 < size:
        comm.send(rank, dest=rank + 1, tag=0)
    elif rank % 2:
        assert comm.recv(source=rank - 1, tag=0) == rank - 1


@example(1)
def example_5_5_2() -> None:
    data = bytearray(b"something" if rank == 0 else 9)
    comm.Bcast([data, 9, MPI.BYTE], root=0)
    assert data == b"something"


@example(3)
def example_5_5_3() -> None:
    group = comm.Get_group()
    slaves = group.Excl([0])
    part = comm.Create(slaves)
    if part != MPI.COMM_NULL:
        total = part.reduce(rank, MPI.SUM, root=1)
        assert total == (sum(range(size)) if rank == 2 else None)
        part.Free()
    for made in (slaves, group):
        made.Free()
    assert comm.reduce(1, MPI.SUM, root=0) == (size if rank == 0 else None)


@example(9)
def example_5_5_4() -> None:
    even = comm.Create(comm.group.Incl([2, 4, 6, 8]))
    if even != MPI.COMM_NULL:
        receive = even.irecv(source=MPI.ANY_SOURCE, tag=12345)
        send = even.isend(even.rank, dest=(even.rank + 1) % 4, tag=12345)
        for i in range(50):
            assert even.reduce(i, MPI.SUM, root=0) == (4 * i if even.rank == 0 else None)
        assert MPI.Request.waitall([receive, send]) == [(even.rank - 1) % 4, None]
        even.Free()


@example(2)
def example_5_5_5() -> None:
    contexts = [comm.Dup(), comm.Dup()]
    pending = [
        (library.irecv(source=(rank - 1) % size), library.isend((i, rank), dest=(rank + 1) % size))
        for i, library in enumerate(contexts)
    ]
    assert comm.allreduce(1) == size
    for i in (1, 0):
        assert MPI.Request.waitall(list(pending[i])) == [(i, (rank - 1) % size), None]
    for library in contexts:
        library.Free()


def serve(library: MPI.Intracomm) -> list[int]:
    if library.rank != 0:
        library.send(library.rank, dest=0)
        return []
    return [library.recv(source=MPI.ANY_SOURCE) for _ in range(1, library.size)]


@example(3)
def example_5_5_6a() -> None:
    comm_a, comm_b = (comm.Create(comm.group.Incl(ranks)) for ranks in ([0, 1], [0, 2]))
    for library in (comm_b, comm_a, comm_b):
        if library != MPI.COMM_NULL:
            assert serve(library) == ([1] if rank == 0 else [])
    for library in (comm_a, comm_b):
        if library != MPI.COMM_NULL:
            library.Free()


@example(4)
def example_5_5_6c() -> None:
    comm_b = comm.Create(comm.group.Incl([0, 2, 3]))
    if comm_b != MPI.COMM_NULL:
        for _ in range(5):
            found = serve(comm_b)
            comm_b.Barrier()
            assert sorted(found) == ([1, 2] if rank == 0 else [])
        comm_b.Free()


def exchange(inter: MPI.Intercomm, name: int) -> Any:
    """What the last process of the other group that has one of the same rank says."""
    if inter.rank >= inter.remote_size:
        return None
    return inter.sendrecv(name, dest=inter.rank, source=inter.rank)


@example(3)
def example_5_6_3_pipeline() -> None:
    key = rank % 3
    part = comm.Split(key, rank)
    tags = {0: {1: 1}, 1: {0: 1, 2: 12}, 2: {1: 12}}[key]
    inters = {other: part.Create_intercomm(0, comm, other, tag) for other, tag in tags.items()}
    for other, inter in inters.items():
        assert exchange(inter, key) in (other, None)
        inter.Free()
    part.Free()


@example(4)
def example_5_6_3_name_service() -> None:
    """The groups of even and of odd ranks meet; the last process knows the names."""
    server, is_server = size - 1, rank == size - 1
    keyval = MPI.Comm.Create_keyval()
    part = comm.Split(is_server, rank)
    part.Set_attr(keyval, part.Create_intercomm(0, comm, 0 if is_server else server, 7))
    names = part.Get_attr(keyval)
    if is_server:
        status = MPI.Status()
        asking = []
        for _ in range(2):
            assert names.recv(source=MPI.ANY_SOURCE, status=status) == "name"
            asking.append(status.source)
        for one, other in (asking, asking[::-1]):
            names.send(other, dest=one)
    else:
        half = part.Split(rank % 2)
        partner = names.sendrecv("name", dest=0, source=0) if half.rank == 0 else 0
        inter = half.Create_intercomm(0, part, partner, 9)
        assert exchange(inter, rank % 2) in (1 - rank % 2, None)
        for made in (inter, half):
            made.Free()
    names.Free()
    part.Free()


@example(1)
def example_5_7_2() -> None:
    references = [1]

    def copy(made: MPI.Comm, key: int, value: list[int]) -> list[int]:
        value[0] += 1
        return value

    def delete(made: MPI.Comm, key: int, value: list[int]) -> None:
        value[0] -= 1

    keyval = MPI.Comm.Create_keyval(copy, delete)
    first = comm.Dup()
    first.Set_attr(keyval, references)
    second = first.Dup()
    assert second.Get_attr(keyval) is references
    assert references == [2]
    first.Free()
    second.Free()
    assert references == [0]


def main() -> None:
    ran = 0
    for ranks, run in EXAMPLES:
        if ranks <= size:
            run()
            comm.Barrier()
            assert not comm.Iprobe(), f"{run.__name__} has left a message"
            comm.Barrier()
            ran += 1
    if rank == 0:
        print(f"{ran} examples")


if __name__ == "__main__":
    main()
