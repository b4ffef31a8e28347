"""Partitioned communication in both faces: partitions that are awaited, and those of threads of real processes."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

import aiompi
from support.jobs import Site
from support.limits import LIMIT
from support.spmd import everywhere


def test_partitions_are_awaited_one_by_one() -> None:
    """Also by several tasks, and again after a time limit, with which nothing is lost."""

    async def program(comm: aiompi.Intracomm) -> None:
        memory = np.zeros(8)
        if comm.rank == 0:
            send = comm.Psend_init(memory, 4, dest=1, tag=2)
            for run in range(2):
                send.start()
                for partition in (3, 0, 1, 2):
                    memory[2 * partition : 2 * partition + 2] = run + partition
                    send.ready(partition)
                    await comm.recv(source=1)
                await send
            send.free()
            return
        receive = comm.Precv_init(memory, 4, source=0, tag=2)
        for run in range(2):
            receive.start()
            await receive.arrived(3)
            assert memory.tolist() == [run and i for i in (0, 0, 1, 1, 2, 2)] + [run + 3] * 2
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(receive.arrived(1), 0.01)
            waiting = [asyncio.ensure_future(receive.arrived(partition)) for partition in (1, 2)]
            for expected in (0, 1, 2):
                await comm.send(None, dest=0)
                await receive.arrived(expected)
                assert memory[2 * expected : 2 * expected + 2].tolist() == [run + expected] * 2
            await comm.send(None, dest=0)
            await asyncio.gather(*waiting)
            status = await receive
            assert (status.source, status.tag, status.nbytes) == (0, 2, 64)
            await receive.arrived(0)
        receive.free()

    async def main() -> None:
        async with asyncio.timeout(LIMIT):
            await everywhere(aiompi.local_world(2), program)

    asyncio.run(main())


THREADS = """
import threading
import time
import numpy as np
from aiompi import MPI

MPI.Init_thread(MPI.THREAD_MULTIPLE)
comm, RUNS, PARTITIONS = MPI.COMM_WORLD, 20, 8
memory = np.zeros(PARTITIONS * 20000)
if comm.rank == 0:
    send = comm.Psend_init(memory, PARTITIONS, 1)
    barrier = threading.Barrier(5)

    def work(first):
        for run in range(RUNS):
            barrier.wait()
            for partition in (first, first + 4):
                memory.reshape(PARTITIONS, -1)[partition] = run + partition
                send.Pready(partition)
            barrier.wait()

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for run in range(RUNS):
        send.Start()
        barrier.wait()
        send.Wait()
        barrier.wait()
    for thread in threads:
        thread.join()
    try:
        send.Parrived(0)
    except MPI.Exception as error:
        print(MPI.Get_error_string(error.error_class), error)
    send.Start()
    try:
        send.Free()
    except MPI.Exception as error:
        print(error)
    send.Pready_range(0, 6)
    time.sleep(0.01)
    send.Pready_list([7])
    send.Wait()
    send.Free()
    print(send == MPI.REQUEST_NULL, send.Parrived(0))
else:
    receive = comm.Precv_init(memory, 2 * PARTITIONS, 0)
    for run in range(RUNS):
        receive.Start()
        missing = set(range(2 * PARTITIONS))
        while missing:
            for partition in list(missing):
                if receive.Parrived(partition):
                    assert (memory.reshape(2 * PARTITIONS, -1)[partition] == run + partition // 2).all()
                    missing.remove(partition)
        receive.Wait()
        assert receive.Parrived(0)
    try:
        receive.Pready(0)
    except MPI.InvalidRequestError as error:
        print(error)
    receive.Start()
    receive.Wait()
    receive.Free()
"""


def test_partitions_from_threads_of_another_process(site: Site) -> None:
    result = site.launch("-n", "2", site.program(THREADS)).finish()
    assert result.code == 0, result.err
    lines = "\n".join(sorted(result.lines))
    assert "True True" in lines
    assert "is not of a partitioned receive" in lines
    assert "Free on MPI_COMM_WORLD, rank 0: the request is active" in lines
    assert "is not of a partitioned send" in lines
