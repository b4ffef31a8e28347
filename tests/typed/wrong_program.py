"""Wrong programs: type checkers refuse every line that says `# wrong`, and no other. It is not run."""

from __future__ import annotations

import numpy as np

import aiompi
from aiompi import MPI


async def native(world: aiompi.World) -> None:
    data = np.zeros(4)
    world.Isend(3.0, dest=0)  # wrong
    await world.Send("text", dest=0)  # wrong
    await world.Recv(data, source="0")  # wrong
    await world.send({})  # wrong
    await world.Gatherv(data, 4)  # wrong
    await world.Allreduce(data)  # wrong
    await world.Allreduce(data, data, "SUM")  # wrong
    await world.Sendrecv(aiompi.IN_PLACE, 1, recvbuf=data)  # wrong
    await world.Alltoallw(data, data)  # wrong
    (await world.Split(0)).Merge()  # wrong
    (await world.allreduce(1)).upper()  # wrong
    (await world.bcast([1])).items()  # wrong
    await world.scatter(3)  # wrong
    status: int = await world.probe()  # wrong
    world.Nonsense()  # wrong
    print(status, aiompi.NONSENSE)  # wrong


def blocking(comm: MPI.Intracomm) -> None:
    data = bytearray(8)
    comm.Isend(3.0, dest=0)  # wrong
    comm.Bcast(1)  # wrong
    comm.recv(0)  # wrong
    comm.Send(data, 0).Wait()  # wrong
    comm.Reduce(data, data, root="0")  # wrong
    comm.Split(0).Merge()  # wrong
    comm.allgather(1)[0].upper()  # wrong
    MPI.Request.Waitall(data)  # wrong
    comm.Isend(data, dest=0).Start()  # wrong
    print(MPI.NONSENSE)  # wrong


aiompi.run(blocking)  # wrong
