"""Files: opening, size, views, pointers and every kind of access, on several ranks in one process."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import numpy as np
import pytest

import aiompi
from aiompi import MPI, File, Intracomm, Status, World
from aiompi.errors import InvalidCountError
from support.spmd import Run, on, ranks

NEW = MPI.MODE_CREATE | MPI.MODE_RDWR


def bytes_in(path: Path) -> list[int]:
    return list(path.read_bytes())


@pytest.mark.parametrize("size", [1, 2, 4])
def test_explicit_offsets(run: Run, path: Path, size: int) -> None:
    async def program(comm: Intracomm) -> None:
        async with File.Open(comm, path, NEW) as file:
            status = await file.Write_at_all(comm.rank * 8, np.full(2, comm.rank, "i4"))
            assert (status.Get_count(MPI.INT), await file.Get_size()) == (2, 8 * size)
            await file.Write_at(comm.rank * 8 + 4, np.full(1, comm.rank + 100, "i4"))
            await comm.Barrier()
            found = np.full(2 * size + 1, -1, "i4")
            assert (await file.Read_at(0, found)).Get_count(MPI.INT) == 2 * size
            assert found.tolist() == [n for rank in range(size) for n in (rank, rank + 100)] + [-1]
            more = np.full(2, -1, "i4")
            assert (await file.Read_at_all(8 * size, more)).Get_count(MPI.INT) == 0
            assert more.tolist() == [-1, -1]

    on(run, size, program)
    assert [name.name for name in path.parent.iterdir()] == ["file"]


def test_a_rank_without_a_part_of_the_array(run: Run, path: Path) -> None:
    async def program(comm: Intracomm) -> None:
        rows = [2, 0, 1][comm.rank]
        part = MPI.DOUBLE.Create_vector(rows, 1, 2).Commit()  # no data at rank 1
        mine, found = np.full(rows, comm.rank + 1.0), np.zeros(rows)
        async with File.Open(comm, path, NEW) as file:
            await file.Set_view([0, 0, 32][comm.rank], MPI.DOUBLE, part)
            status = await file.Write_all(mine)
            assert status.Get_count(MPI.DOUBLE) == rows
            await file.Read_at_all(0, found)
            assert found.tolist() == mine.tolist()
            if comm.rank == 1:
                await file.Seek(0, MPI.SEEK_END)
                assert file.Get_position() == 0
                with pytest.raises(InvalidCountError, match="8 bytes have no place"):
                    await file.Write(np.ones(1))

    on(run, 3, program)
    assert np.fromfile(path).tolist() == [1, 0, 1, 0, 3]


@ranks(1)
async def test_a_mode_is_a_sum_of_constants(world: World, path: Path) -> None:
    with pytest.raises(TypeError, match=r"File.Open: amode is 'w': expected a sum of modes, such as MODE_CREATE"):
        await File.Open(world, path, "w")  # type: ignore[arg-type]


@pytest.mark.parametrize("way", ["enable", "disable", "automatic"])
@pytest.mark.parametrize("size", [1, 3])
def test_interleaved_views(run: Run, path: Path, size: int, way: str) -> None:
    """Each rank sees every `size`-th number."""
    blocks = 1000

    async def program(comm: Intracomm) -> None:
        hints = {"romio_cb_write": way, "romio_cb_read": way, "cb_buffer_size": "777", "cb_nodes": "2"}
        file = await File.Open(comm, path, NEW, aiompi.Info.Create(hints))
        assert file.Get_info()["cb_buffer_size"] == "777"
        kind = MPI.INT.Create_resized(0, 4 * size).Commit()
        await file.Set_view(5 + 4 * comm.rank, MPI.INT, kind)
        mine = np.arange(blocks, dtype="i4") * size + comm.rank
        assert (await file.Write_all(mine)).Get_count(MPI.INT) == blocks
        assert file.Get_position() == blocks
        assert file.Get_byte_offset(1) == 5 + 4 * (size + comm.rank)
        again = np.full(blocks + 3, -1, "i4")
        status = await file.Read_at_all(1, again)
        assert status.Get_count(MPI.INT) == blocks - 1
        assert again.tolist() == [*mine[1:].tolist(), -1, -1, -1, -1]
        await file.Close()

    on(run, size, program)
    assert np.frombuffer(path.read_bytes()[5:], "i4").tolist() == list(range(blocks * size))


def test_the_ranges_of_aggregators_cover_all_bytes(run: Run, path: Path) -> None:
    """Ranges grow in steps of 64 KiB; the access has one byte more than two such ranges."""
    whole = (bytes(range(251)) * 523)[: 2 * 64 * 2**10 + 1]

    async def program(comm: Intracomm) -> None:
        info = aiompi.Info.Create({"romio_cb_write": "enable", "romio_cb_read": "enable", "cb_nodes": "2"})
        async with File.Open(comm, path, NEW, info) as file:
            await file.Set_view(comm.rank, MPI.BYTE, MPI.BYTE.Create_resized(0, 2).Commit())
            mine = whole[comm.rank :: 2]
            await file.Write_all(mine)
            found = bytearray(len(mine))
            await file.Read_at_all(0, found)
            assert found == mine

    on(run, 2, program)
    assert path.read_bytes() == whole


@pytest.mark.parametrize("way", ["enable", "disable"])
def test_what_no_rank_gives_is_left_alone(run: Run, path: Path, way: str) -> None:
    path.write_bytes(b"x" * 3000)

    async def program(comm: Intracomm) -> None:
        info = aiompi.Info.Create({"romio_cb_write": way})
        async with File.Open(comm, path, MPI.MODE_WRONLY, info) as file:
            await file.Set_view(10 * comm.rank, MPI.BYTE, MPI.BYTE.Create_resized(0, 30).Commit())
            await file.Write_all(b"0123456789"[comm.rank : comm.rank + 1] * 100)

    on(run, 2, program)
    expected = bytearray(b"x" * 3000)
    expected[0::30], expected[10::30] = b"0" * 100, b"1" * 100
    assert path.read_bytes() == expected


@ranks(1)
async def test_memory_with_gaps(world: World, path: Path) -> None:
    async with File.Open(world, path, NEW) as file:
        table = np.arange(40, dtype="i4").reshape(8, 5)
        await file.Write(table[:, 1])
        large = np.arange(2**16, dtype="i4").reshape(4, -1)
        await file.Write(large[::2])
        found = np.zeros((8, 5), "i4")
        await file.Seek(0)
        await file.Read(found[:, 2])
        assert found[:, 2].tolist() == table[:, 1].tolist()
        assert not found[:, 1].any()
        again = np.zeros_like(large)
        assert (await file.Read(again[1::2])).Get_count(MPI.INT) == 2**15
        assert (again[1::2] == large[::2]).all()


def test_pointers(run: Run, path: Path) -> None:
    path.write_bytes(bytes(range(22)))

    async def program(comm: Intracomm) -> None:
        async with File.Open(comm, path, MPI.MODE_RDONLY) as file:
            await file.Set_view(2, MPI.INT16_T)
            await file.Seek(-3, MPI.SEEK_END)
            assert file.Get_position() == 7
            await file.Seek(1, MPI.SEEK_CUR)
            found = np.zeros(5, "i2")
            assert (await file.Read(found)).Get_count(MPI.INT16_T) == 2
            assert found.view("u1").tolist() == [18, 19, 20, 21, 0, 0, 0, 0, 0, 0]
            assert file.Get_position() == 13
            with pytest.raises(aiompi.InvalidArgumentError):
                await file.Seek(-14, MPI.SEEK_CUR)
            await file.Seek_shared(4)
            await file.Seek_shared(-1, MPI.SEEK_CUR)
            assert await file.Get_position_shared() == 3
            await file.Seek_shared(0, MPI.SEEK_END)
            assert await file.Get_position_shared() == 10

    on(run, 2, program)


@pytest.mark.parametrize("size", [1, 3])
def test_shared_pointer(run: Run, path: Path, size: int) -> None:
    async def program(comm: Intracomm) -> None:
        async with File.Open(comm, path, NEW) as file:
            await file.Set_view(0, MPI.INT)
            await asyncio.gather(*(file.Write_shared(np.full(2, 10 * comm.rank + i, "i4")) for i in range(5)))
            assert (await file.Write_ordered(np.full(comm.rank, comm.rank, "i4"))).Get_count(MPI.INT) == comm.rank
            assert await file.Get_position_shared() == 10 * size + sum(range(size))
            await file.Seek_shared(10 * size)
            found = np.full(comm.rank, -1, "i4")
            await file.Read_ordered(found)
            assert found.tolist() == [comm.rank] * comm.rank
            await file.Set_view(0, MPI.INT)
            assert await file.Get_position_shared() == 0
            await comm.Barrier()
            mine = np.zeros(2, "i4")
            for _ in range(5):
                await file.Read_shared(mine)
                assert mine[0] == mine[1]

    on(run, size, program)
    pairs = np.frombuffer(path.read_bytes(), "i4")[: 10 * size].reshape(-1, 2)
    assert sorted(pairs[:, 0].tolist()) == [10 * rank + i for rank in range(size) for i in range(5)]
    assert (pairs[:, 0] == pairs[:, 1]).all()


def test_nonblocking_and_split(run: Run, path: Path) -> None:
    async def program(comm: Intracomm) -> None:
        rank, size = comm.rank, comm.size
        async with File.Open(comm, path, NEW) as file:
            blocks = [np.full(3, 10 * rank + i, "u1") for i in range(4)]
            requests = [file.Iwrite_at_all(3 * (size * i + rank), blocks[i]) for i in range(3)]
            requests.append(file.Iwrite_at(3 * (size * 3 + rank), blocks[3]))
            for request in requests:
                assert (await request).count == 3
                assert request.status.count == 3
            await comm.Barrier()
            found = np.zeros(3, "u1")
            file.Read_at_all_begin(3 * (size * 2 + rank), found)
            with pytest.raises(aiompi.LocalProtocolError):
                file.Read_all_begin(found)
            with pytest.raises(aiompi.LocalProtocolError):
                file.Read_all_end(found)
            await file.Read_at_all_end(found)
            assert found.tolist() == [10 * rank + 2] * 3
            await file.Set_view(3 * rank, MPI.BYTE)
            file.Write_all_begin(b"abc")
            await file.Write_all_end(b"abc")
            file.Write_ordered_begin(b"")
            await file.Write_ordered_end(b"")
            with pytest.raises(aiompi.LocalProtocolError):
                file.Write_ordered_end(b"")

    on(run, 3, program)
    assert path.read_bytes()[:9] == b"abcabcabc"


@pytest.mark.parametrize("size", [1, 2])
def test_external32(run: Run, path: Path, size: int) -> None:
    async def program(comm: Intracomm) -> None:
        rank = comm.rank
        async with File.Open(comm, path, NEW) as file:
            await file.Set_view(0, MPI.LONG, None, "external32")
            assert (file.Get_type_extent(MPI.LONG), file.Get_view()[3]) == (4, "external32")
            values = np.array([rank + 1, -rank - 2, 3], "l")
            assert (await file.Write_at_all(3 * rank, values)).Get_count(MPI.LONG) == 3
            assert await file.Get_size() == 12 * size
            found = np.zeros(4, "l")
            assert (await file.Read_at(3 * (size - 1), found)).Get_count(MPI.LONG) == 3
            assert found.tolist() == [size, -size - 1, 3, 0]
            kind = MPI.DOUBLE.Create_resized(0, 8 * size).Commit()
            await file.Set_view(12 * size + 8 * rank, MPI.DOUBLE, kind, "external32")
            await file.Write_all(np.array([1.5, rank], "f8"))
            again = np.zeros(3)
            assert (await file.Read_at_all(0, again)).Get_count(MPI.DOUBLE) == 2
            assert again.tolist() == [1.5, rank, 0]
            with pytest.raises(aiompi.FileError) as failure:
                await file.Set_view(0, MPI.LONG, MPI.LONG.Create_resized(0, 16).Commit(), "external32")
            assert failure.value.error_class == MPI.ERR_UNSUPPORTED_DATAREP

    on(run, size, program)
    content = path.read_bytes()
    assert np.frombuffer(content[:12], ">i4").tolist() == [1, -2, 3]
    assert np.frombuffer(content[12 * size :], ">f8").tolist() == [1.5] * size + [*range(size)]


def test_size_and_modes(run: Run, path: Path) -> None:
    async def program(comm: Intracomm) -> None:
        file = await File.Open(comm, os.fsencode(path), NEW | MPI.MODE_EXCL | MPI.MODE_DELETE_ON_CLOSE)
        await file.Set_size(2**40)
        assert await file.Get_size() == 2**40
        await file.Write_at_all(2**40 + comm.rank, b"x")
        assert await file.Get_size() == 2**40 + comm.size
        await file.Set_size(10)
        await file.Preallocate(100)
        await file.Preallocate(50)
        assert await file.Get_size() == 100
        await file.Sync()
        await file.Set_atomicity(True)
        assert file.Get_atomicity()
        await file.Write_at(0, bytes([comm.rank]) * 100)
        found = bytearray(100)
        await file.Read_at_all(0, found)
        assert len(set(found)) == 1
        await file.Close()
        assert not file
        with pytest.raises(aiompi.FileError) as failure:
            file.Read(found)
        assert failure.value.error_class == MPI.ERR_FILE

    on(run, 2, program)
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("way", ["enable", "disable"])
def test_offsets_beyond_2_and_4_gib(run: Run, path: Path, way: str) -> None:
    """The file is sparse: numbers are at multiples of 2 GiB, and bytes across 4 GiB."""

    async def program(comm: Intracomm) -> None:
        info = aiompi.Info.Create({"romio_cb_write": way, "romio_cb_read": way, "cb_buffer_size": str(2**30)})
        async with File.Open(comm, path, NEW, info) as file:
            await file.Set_view(4 * comm.rank, MPI.INT, MPI.INT.Create_resized(0, 2**31).Commit())
            numbers = np.arange(4, dtype="i4") + 10 * comm.rank
            await file.Write_at_all(1, numbers)
            found = np.zeros(4, "i4")
            assert (await file.Read_at_all(1, found)).Get_count(MPI.INT) == 4
            assert found.tolist() == numbers.tolist()
            assert await file.Get_size() == 4 * 2**31 + 8
            await file.Set_view(2**32 - 3000, MPI.INT)
            await file.Write_at(250 * comm.rank + 500, np.full(250, comm.rank + 1, "i4"))
            assert file.Get_byte_offset(2**31) == 2**32 - 3000 + 4 * 2**31
            await comm.Barrier()
            await file.Seek_shared(2**31)  # elementary types: beyond 8 GiB
            await file.Write_ordered(np.full(1, comm.rank + 7, "i4"))

    on(run, 2, program)
    with path.open("rb") as file:
        for number in (1, 2, 3, 4):
            file.seek(number * 2**31)
            expected = [2, 2] if number == 2 else [number - 1, number + 9]
            assert np.frombuffer(file.read(8), "i4").tolist() == expected
        file.seek(2**32 - 1000)
        assert np.frombuffer(file.read(2000), "i4").tolist() == [1] * 250 + [2] * 250
        file.seek(2**32 - 3000 + 4 * 2**31)
        assert np.frombuffer(file.read(), "i4").tolist() == [7, 8]


def test_append_starts_at_the_end(run: Run, path: Path) -> None:
    path.write_bytes(b"abc")

    async def program(comm: Intracomm) -> None:
        async with File.Open(comm, path, MPI.MODE_WRONLY | MPI.MODE_APPEND) as file:
            await file.Write_ordered(b"de"[comm.rank : comm.rank + 1])
            await file.Write_at_all(comm.rank, b"AB"[comm.rank : comm.rank + 1])

    on(run, 2, program)
    assert path.read_bytes() == b"ABcde"


@ranks(2)
async def test_sequential_files_have_the_shared_pointer_only(world: World, path: Path) -> None:
    async with File.Open(world, path, MPI.MODE_CREATE | MPI.MODE_WRONLY | MPI.MODE_SEQUENTIAL) as file:
        await file.Write_ordered(b"ab")
        for call in (lambda: file.Write_at(0, b""), lambda: file.Write_all(b""), lambda: file.Seek(0)):
            with pytest.raises(aiompi.FileError) as failure:
                await call()
            assert failure.value.error_class == MPI.ERR_UNSUPPORTED_OPERATION
        await file.Set_view(MPI.DISPLACEMENT_CURRENT)
        assert file.Get_view()[0] == 2 * world.size


@ranks(2)
async def test_status_is_that_of_an_empty_access(world: World, path: Path) -> None:
    async with File.Open(world, path, NEW) as file:
        assert await file.Write_all(b"") == Status()
        assert await file.Read(bytearray()) == Status()
