"""Failures of files: error classes, the same at all ranks; full disks, cancelled awaits, ranks that are killed."""

from __future__ import annotations

import asyncio
import errno
import os
import pickle
import resource
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiompi
from aiompi import MPI, File, FileError, Intracomm, World, hooks
from aiompi.face.errhandlers import consult
from aiompi.file import aggregation, collective, disk, transfer
from aiompi.file.aggregation import Part, Pieces
from support.jobs import Site
from support.limits import LIMIT
from support.spmd import Run, on, ranks

NEW = MPI.MODE_CREATE | MPI.MODE_RDWR


@pytest.mark.parametrize(
    ("name", "mode", "expected"),
    [
        ("missing", MPI.MODE_RDONLY, MPI.ERR_NO_SUCH_FILE),
        ("missing/file", NEW, MPI.ERR_NO_SUCH_FILE),
        ("there", NEW | MPI.MODE_EXCL, MPI.ERR_FILE_EXISTS),
        ("there/file", NEW, MPI.ERR_BAD_FILE),
        (".", MPI.MODE_RDWR, MPI.ERR_BAD_FILE),
        ("x" * 300, NEW, MPI.ERR_BAD_FILE),
        ("there", MPI.MODE_RDONLY | MPI.MODE_WRONLY, MPI.ERR_AMODE),
        ("there", MPI.MODE_CREATE, MPI.ERR_AMODE),
        ("there", MPI.MODE_RDONLY | MPI.MODE_CREATE, MPI.ERR_AMODE),
        ("there", MPI.MODE_RDWR | MPI.MODE_SEQUENTIAL, MPI.ERR_AMODE),
    ],
)
def test_what_cannot_be_opened(run: Run, tmp_path: Path, name: str, mode: int, expected: int) -> None:
    (tmp_path / "there").touch()

    async def program(comm: Intracomm) -> None:
        with pytest.raises(FileError, match=tmp_path.name) as failure:
            await File.Open(comm, tmp_path / name, mode)
        assert failure.value.error_class == expected
        assert failure.value == expected

    on(run, 3, program)


@ranks(2)
async def test_modes_and_views_that_differ(world: World, path: Path) -> None:
    with pytest.raises(FileError) as failure:
        await File.Open(world, path, NEW | (MPI.MODE_EXCL if world.rank else 0))
    assert failure.value.error_class == MPI.ERR_NOT_SAME
    async with File.Open(world, path, NEW) as file:
        with pytest.raises(FileError) as failure:
            await file.Set_view(0, MPI.INT if world.rank else MPI.DOUBLE)
        assert failure.value.error_class == MPI.ERR_NOT_SAME
        with pytest.raises(FileError) as failure:
            await file.Set_size(world.rank)
        assert failure.value.error_class == MPI.ERR_NOT_SAME


@ranks(2)
async def test_a_view_that_is_wrong_in_one_process_is_so_in_all(world: World, path: Path) -> None:
    async with File.Open(world, path, NEW) as file:
        disp = -1 if world.rank == 1 else 0
        with pytest.raises(aiompi.InvalidArgumentError, match="disp is -1"):
            await file.Set_view(disp)
        with pytest.raises(FileError) as failure:
            await file.Set_view(0, MPI.INT, MPI.INT, "strange")
        assert failure.value.error_class == MPI.ERR_UNSUPPORTED_DATAREP
        backwards = MPI.INT.Create_indexed_block(1, [1, 0]).Commit()
        with pytest.raises(aiompi.InvalidArgumentError, match="ascending"):
            await file.Set_view(0, MPI.INT, backwards)
        with pytest.raises(aiompi.InvalidArgumentError, match="overlaps with the next"):
            await file.Set_view(0, MPI.INT, MPI.INT.Create_vector(2, 1, 2).Create_resized(0, 4).Commit())
        await file.Set_view(0, MPI.INT)
        with pytest.raises(MPI.InvalidCountError):
            file.Write(b"123")
        with pytest.raises(aiompi.InvalidArgumentError):
            file.Write_at(-1, b"1234")


def test_direction(run: Run, path: Path) -> None:
    path.touch()

    async def program(comm: Intracomm) -> None:
        async with File.Open(comm, path, MPI.MODE_RDONLY) as file:
            for call in (lambda: file.Write(b""), lambda: file.Set_size(1), lambda: file.Preallocate(1)):
                with pytest.raises(FileError) as failure:
                    await call()
                assert failure.value.error_class == MPI.ERR_READ_ONLY
        async with File.Open(comm, path, MPI.MODE_WRONLY) as file:
            with pytest.raises(FileError) as failure:
                file.Read(bytearray(1))
            assert failure.value.error_class == MPI.ERR_ACCESS

    on(run, 1, program)


@pytest.mark.parametrize("way", ["enable", "disable"])
@ranks(3)
async def test_a_full_device_fails_at_all_ranks(world: World, way: str) -> None:
    info = aiompi.Info.Create({"romio_cb_write": way})
    async with File.Open(world, "/dev/full", MPI.MODE_WRONLY, info) as file:
        data = b"x" * 100 if world.rank == 1 else b""
        with pytest.raises(FileError, match="No space left") as failure:
            await file.Write_at_all(0, data)
        assert failure.value.error_class == MPI.ERR_NO_SPACE
        if world.rank == 1:
            with pytest.raises(FileError, match=r"/dev/full.*No space") as failure:
                await file.Write_at(0, data)
            assert isinstance(failure.value.__cause__, OSError)
            assert failure.value.__cause__.errno == errno.ENOSPC
        copy = pickle.loads(pickle.dumps(failure.value))
        assert (copy.error_class, str(copy)) == (MPI.ERR_NO_SPACE, str(failure.value))
        assert (await file.Write_at_all(0, b"")).count == 0


@pytest.mark.parametrize(("number", "expected"), [(errno.ENOSPC, MPI.ERR_NO_SPACE), (errno.EDQUOT, MPI.ERR_QUOTA)])
@pytest.mark.parametrize("way", ["enable", "disable"])
def test_a_disk_or_a_quota_that_becomes_full(
    run: Run, path: Path, monkeypatch: pytest.MonkeyPatch, number: int, expected: int, way: str
) -> None:
    """The system writes a part, and then refuses; once there is room, the next call writes all."""
    pwritev, full = os.pwritev, True

    def refuse(fd: int, views: list[memoryview], offset: int) -> int:
        if full and offset >= 4000:
            raise OSError(number, os.strerror(number))
        return pwritev(fd, [views[0][: 4000 - offset]] if full else views, offset)

    monkeypatch.setattr(os, "pwritev", refuse)

    async def program(comm: Intracomm) -> None:
        nonlocal full
        info = aiompi.Info.Create({"romio_cb_write": way})
        async with File.Open(comm, path, NEW, info) as file:
            data = bytes([comm.rank + 1]) * 3000
            with pytest.raises(FileError, match=os.strerror(number)) as failure:
                await file.Write_at_all(3000 * comm.rank, data)
            assert failure.value.error_class == expected
            own = comm.rank > 0 if way == "disable" else comm.rank == 0  # the rank that has written it
            assert str(failure.value).startswith("at rank") is not own
            assert isinstance(failure.value.__cause__, OSError) is own
            await comm.Barrier()
            assert path.stat().st_size == 4000
            await comm.Barrier()
            full = False
            await file.Write_at_all(3000 * comm.rank, data)

    on(run, 3, program)
    assert path.read_bytes() == b"".join(bytes([rank + 1]) * 3000 for rank in range(3))


def test_memory_that_runs_out_in_an_exchange_fails_at_all_ranks(
    run: Run, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def allocate(nbytes: int) -> memoryview:
        if short and nbytes == 4096:
            raise MemoryError("no room")
        return memoryview(bytearray(nbytes))

    short = True
    monkeypatch.setattr(collective, "allocate", allocate)

    async def program(comm: Intracomm) -> None:
        nonlocal short
        info = aiompi.Info.Create({"romio_cb_write": "enable", "cb_nodes": "1", "cb_buffer_size": "8192"})
        async with File.Open(comm, path, NEW, info) as file:
            data = bytes([comm.rank]) * 3 * 4096
            with pytest.raises(FileError, match="MemoryError: no room") as failure:
                await file.Write_at_all(comm.rank * len(data), data)
            assert isinstance(failure.value.__cause__, MemoryError) is (comm.rank == 0)  # which writes for all
            short = False
            await file.Write_at_all(comm.rank * len(data), data)

    on(run, 3, program)
    assert path.read_bytes() == b"".join(bytes([rank]) * 3 * 4096 for rank in range(3))


@pytest.mark.parametrize("writing", [True, False])
def test_a_rank_that_cannot_go_on_in_an_exchange_keeps_no_other_waiting(
    run: Run, path: Path, monkeypatch: pytest.MonkeyPatch, writing: bool
) -> None:
    def cut(pieces: Pieces, low: int, high: int) -> Part:
        if low == 2**13 and pieces[0].tolist() == [0]:  # at rank 0, in the second step
            raise MemoryError("no room")
        return aggregation.cut(pieces, low, high)

    path.write_bytes(bytes(3 * 2**13))
    monkeypatch.setattr(collective, "cut", cut)
    names = "romio_cb_write", "romio_cb_read"
    hints = {"cb_nodes": "1", "cb_buffer_size": str(2**13)} | dict.fromkeys(names, "enable")

    async def program(comm: Intracomm) -> None:
        file = await File.Open(comm, path, NEW, aiompi.Info.Create(hints))
        access = file.Write_at_all if writing else file.Read_at_all
        kind, words = (FileError, "MemoryError: no room") if comm.rank == 0 else (aiompi.RevokedError, "close the file")
        async with asyncio.timeout(LIMIT):
            with pytest.raises(kind, match=words):
                await access(comm.rank * 2**13, bytearray(2**13))
            with pytest.raises(aiompi.RevokedError):
                await access(0, bytearray(1))
            with pytest.raises(aiompi.RevokedError):
                await file.Close()
        await comm.Barrier()  # the communicator of the program is as it was

    on(run, 3, program)


@pytest.fixture
def limited() -> Iterator[int]:
    """Let no file of this process become longer than some bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    yield 10_000
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("way", ["enable", "disable"])
def test_a_write_that_is_cut_short_fails(run: Run, path: Path, limited: int, way: str) -> None:
    """The first bytes are written; the system call that follows says why no more are."""

    async def program(comm: Intracomm) -> None:
        info = aiompi.Info.Create({"romio_cb_write": way})
        file = await File.Open(comm, path, NEW, info)
        await file.Set_view(0, MPI.BYTE, MPI.BYTE.Create_vector(1, 3000, 3000).Create_resized(0, 6000).Commit())
        await file.Set_view(
            3000 * comm.rank, MPI.BYTE, MPI.BYTE.Create_vector(1, 3000, 3000).Create_resized(0, 6000).Commit()
        )
        with pytest.raises(FileError, match="the limit of the size") as failure:
            await file.Write_all(bytes([comm.rank + 1]) * 9000)
        assert failure.value.error_class == MPI.ERR_IO
        await file.Close()

    on(run, 2, program)
    assert path.stat().st_size == limited


def test_a_file_that_becomes_shorter_gives_less(run: Run, path: Path) -> None:
    path.write_bytes(bytes(range(200)))

    async def program(comm: Intracomm) -> None:
        info = aiompi.Info.Create({"romio_cb_read": "enable", "cb_buffer_size": "16"})
        async with File.Open(comm, path, MPI.MODE_RDONLY, info) as file:
            await file.Set_view(comm.rank, MPI.BYTE, MPI.BYTE.Create_resized(0, 2).Commit())
            if comm.rank == 0:
                os.truncate(path, 51)
            await comm.Barrier()
            found = bytearray(b"\xff" * 100)
            status = await file.Read_all(found)
            count = 26 - comm.rank
            assert status.Get_count(MPI.BYTE) == count
            assert found == bytes(range(comm.rank, 51, 2)) + b"\xff" * (100 - count)

    on(run, 2, program)


def test_the_loop_goes_on_while_a_disk_is_slow(run: Run, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (released.wait(), fsync(fd)))

    async def program(comm: Intracomm) -> None:
        async with File.Open(comm, path, NEW) as file:
            waiting = file.Sync()
            await asyncio.sleep(0.05)
            assert not waiting.done()
            await comm.sendrecv(1, comm.rank, source=comm.rank)
            released.set()
            await waiting

    on(run, 1, program)


def test_a_cancelled_write_ends_between_two_pieces(run: Run, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "STEP", 1000)
    began, released = threading.Event(), threading.Event()
    pwritev = os.pwritev

    def slow(*arguments: Any) -> int:
        began.set()
        assert released.wait(10)
        return pwritev(*arguments)

    monkeypatch.setattr(os, "pwritev", slow)

    async def program(comm: Intracomm) -> None:
        async with File.Open(comm, path, NEW) as file:
            task = asyncio.create_task(asyncio.wait_for(file.Write(bytes(10_000)), 0.05))
            await asyncio.sleep(0.1)
            assert began.is_set()
            assert not task.done()  # a thread still reads the memory of the program
            released.set()
            with pytest.raises(TimeoutError):
                await task
            request = file.Iwrite(bytes(10_000))
            request.cancel()
            status = await request
            assert status.Is_cancelled()
            assert status.count < 10_000

    on(run, 1, program)
    assert path.stat().st_size <= 12_000


def test_threads_are_few_and_end(run: Run, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "_IDLE", 0.05)
    names = lambda: [thread.name for thread in threading.enumerate()].count("aiompi-disk")  # noqa: E731
    before = names()

    async def program(comm: Intracomm) -> None:
        async with File.Open(comm, path, NEW) as file:
            writes = [file.Iwrite_at(8 * i, np.array([i], "i8")) for i in range(200)]
            assert names() - before <= disk.LIMIT
            for write in writes:
                await write
            found = np.zeros(200, "i8")
            await file.Read(found)
            assert found.tolist() == [*range(200)]
        while names() > before:
            await asyncio.sleep(0.01)

    on(run, 1, program)


def test_an_error_handler_of_a_file(run: Run) -> None:
    seen: list[int] = []

    async def program(comm: Intracomm) -> None:
        async with File.Open(comm, "/dev/full", MPI.MODE_WRONLY) as file:
            file.Set_errhandler(File.Create_errhandler(lambda failed, code: seen.append(code)))
            with pytest.raises(FileError):
                await file.Write(b"x")

    on(run, 1, program)
    hooks.remove(consult)
    assert seen == [MPI.ERR_NO_SPACE]


@pytest.mark.parametrize("level", ["single", "serialized", "multiple"])
def test_real_processes(site: Site, level: str) -> None:
    text = textwrap.dedent(
        """
        from aiompi import MPI
        import numpy as np
        comm = MPI.COMM_WORLD
        file = MPI.File.Open(comm, "f", MPI.MODE_CREATE | MPI.MODE_RDWR)
        file.Set_view(4 * comm.rank, MPI.INT, MPI.INT.Create_resized(0, 4 * comm.size).Commit())
        file.Iwrite_at_all(0, np.full(1000, comm.rank, "i4")).Wait()
        file.Write_ordered(np.full(1, 7, "i4"))
        found = np.zeros(1000, "i4")
        file.Read_at_all(0, found)
        print(comm.rank, file.Get_position_shared(), (found[3:] == comm.rank).all())
        comm.Barrier()  # all have seen the shared pointer
        file.Write_shared(np.full(1, 7, "i4"))
        file.Close()
        """
    )
    result = site.launch("-n", "3", site.program(text), env={"AIOMPI_THREAD_LEVEL": level}).finish()
    assert (result.code, result.err) == (0, ""), result
    assert result.lines == [f"{rank} 3 True" for rank in range(3)]


@pytest.mark.parametrize("size", [1, 3])
def test_random_accesses_agree_with_the_model(site: Site, size: int) -> None:
    """`fuzz.py` has a command for many more cases."""
    result = site.launch("-n", str(size), str(Path(__file__).with_name("fuzz.py")), "--cases", "25").finish()
    assert result.code == 0, result
