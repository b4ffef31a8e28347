"""Arguments that are wrong in one process, or differ: collective calls fail in all processes, and none hangs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import aiompi
from aiompi import MPI, File, FileError, Intracomm, World
from aiompi.errors import (
    InvalidArgumentError,
    InvalidBufferError,
    InvalidTypeError,
    LocalProtocolError,
    MPIError,
    OtherError,
    RemoteProtocolError,
)
from aiompi.file import failures
from support.cases import cases
from support.jobs import Site, in_face
from support.spmd import Run, on, ranks

NEW = MPI.MODE_CREATE | MPI.MODE_RDWR

Call = Callable[[File], Awaitable[object]]


def split(kind: str, *arguments: Any) -> Call:
    """Return a call that begins and ends a split collective."""

    async def call(file: File) -> None:
        getattr(file, f"{kind}_begin")(*arguments)
        await getattr(file, f"{kind}_end")(arguments[-1])

    return call


#: calls that are wrong, the same calls that are right, and the error of the wrong call in its process and in others
WRONG: list[tuple[Call, Call, type[Exception], type[MPIError]]] = [
    *(
        (make(bad), make(good), kind, told)
        for bad, good, kind, told in [
            ((2**63, b"x"), (0, b"x"), InvalidArgumentError, InvalidArgumentError),
            ((2**63 - 1, b"xy"), (0, b"xy"), InvalidArgumentError, InvalidArgumentError),
            ((-1, b"x"), (0, b"x"), InvalidArgumentError, InvalidArgumentError),
            ((None, b"x"), (0, b"x"), TypeError, InvalidArgumentError),
            ((0, 5), (0, b"x"), TypeError, InvalidArgumentError),
        ]
        for make in [
            lambda a: lambda file: file.Write_at_all(*a),
            lambda a: lambda file: file.Iwrite_at_all(*a),
            lambda a: split("Write_at_all", *a),
        ]
    ),
    *(
        (make(b"read-only"), make(bytearray(1)), InvalidBufferError, InvalidBufferError)
        for make in [
            lambda a: lambda file: file.Read_all(a),
            lambda a: lambda file: file.Iread_at_all(0, a),
            lambda a: lambda file: file.Read_ordered(a),
            lambda a: split("Read_all", a),
            lambda a: split("Read_ordered", a),
        ]
    ),
    *(
        (make(bad), make(10), kind, InvalidArgumentError)
        for bad, kind in [(2**63, InvalidArgumentError), (-1, InvalidArgumentError), ("1", TypeError)]
        for make in [lambda a: lambda file: file.Set_size(a), lambda a: lambda file: file.Preallocate(a)]
    ),
    (lambda file: file.Set_view(2**63), lambda file: file.Set_view(0), InvalidArgumentError, InvalidArgumentError),
    (lambda file: file.Set_view("0"), lambda file: file.Set_view(0), TypeError, InvalidArgumentError),
    (lambda file: file.Set_view(0, "i"), lambda file: file.Set_view(0), TypeError, InvalidArgumentError),
    (
        lambda file: file.Set_view(0, MPI.DATATYPE_NULL),
        lambda file: file.Set_view(0),
        InvalidTypeError,
        InvalidTypeError,
    ),
    (lambda file: file.Set_view(info={1: 2}), lambda file: file.Set_view(), TypeError, InvalidArgumentError),
    (lambda file: file.Seek_shared("1"), lambda file: file.Seek_shared(1), TypeError, InvalidArgumentError),
]


def test_a_wrong_argument_in_one_process_fails_in_all(run: Run, path: Path) -> None:
    """The process with the argument raises its error, the others one with its rank; the next call is right."""

    async def program(comm: Intracomm) -> None:
        async with File.Open(comm, path, NEW) as file:
            for number, (wrong, right, kind, told) in enumerate(WRONG):
                culprit = number % comm.size
                call, expected = (wrong, kind) if comm.rank == culprit else (right, told)
                with pytest.raises(expected) as failure:
                    await call(file)
                    pytest.fail(f"call {number} raises nothing")
                if comm.rank != culprit:
                    assert str(failure.value).startswith(f"at rank {culprit}: "), number
                assert file.Get_position() == 0
                await right(file)
                await file.Set_view()
            await file.Set_size(0)
            await file.Write_all(bytes([comm.rank]) * 3)

    on(run, 3, program)
    assert path.stat().st_size == 3


@ranks(2)
async def test_positions_beyond_64_bits(world: World, path: Path) -> None:
    async with File.Open(world, path, NEW) as file:
        for call in [
            lambda: file.Seek(2**63),
            lambda: file.Write_at(2**63, b"x"),
            lambda: file.Write_at(2**63 - 1, b"x"),
            lambda: file.Iread_at(2**63 - 1, bytearray(1)),
            lambda: file.Seek_shared(2**63),
            lambda: file.Seek_shared(10**5000),
        ]:
            with pytest.raises((InvalidArgumentError, ValueError)):
                await call()
        await file.Seek(2**63 - 2)
        with pytest.raises(InvalidArgumentError):
            await file.Write_all(b"xy")
        assert file.Get_position() == 2**63 - 2
        await file.Seek_shared(2**63 - 1)
        for write in (file.Write_ordered, file.Write_shared):
            with pytest.raises(InvalidArgumentError, match="shared pointer"):
                await write(b"x")
        await file.Set_view(2**63 - 2, MPI.BYTE, MPI.BYTE.Create_resized(0, 2).Commit())
        with pytest.raises(InvalidArgumentError, match="reaches to byte"):
            await file.Write_at_all(0, b"xy")
        assert await file.Get_size() == 0


def test_other_collective_calls_are_noticed(run: Run, path: Path) -> None:
    async def program(comm: Intracomm) -> None:
        async with File.Open(comm, path, NEW) as file:
            first: list[Call] = [
                lambda file: file.Write_all(b"abc"),
                lambda file: file.Write_ordered(b"abc"),
                lambda file: file.Set_size(5),
                lambda file: file.Sync(),
                lambda file: file.Set_view(),
            ]
            other = lambda file: file.Read_all(bytearray(3))  # noqa: E731
            for call in first:
                with pytest.raises(FileError, match="has called File_") as failure:
                    await (call if comm.rank == 1 else other)(file)
                assert failure.value.error_class == MPI.ERR_NOT_SAME
                rank, name = (0, "File_read_all") if comm.rank == 1 else (1, "")
                assert f"{path}', rank {comm.rank}: rank {rank} has called {name}" in str(failure.value)
            await file.Write_at_all(comm.rank, b"x")

    on(run, 3, program)
    assert path.read_bytes() == b"xxx"


def test_hints_of_rank_0_count(run: Run, path: Path) -> None:
    """Otherwise the ranks would exchange data in different ways, and wait for ever."""

    async def program(comm: Intracomm) -> None:
        own = {"romio_cb_write": "disable" if comm.rank else "enable", "cb_nodes": str(comm.rank + 1)}
        async with File.Open(comm, path, NEW, aiompi.Info.Create(own | {"cb_buffer_size": "9" * 30})) as file:
            await file.Set_view(comm.rank, MPI.BYTE, MPI.BYTE.Create_resized(0, comm.size).Commit())
            file.Set_info(aiompi.Info.Create({"cb_buffer_size": str(7 + comm.rank)}))
            await file.Write_all(bytes([comm.rank]) * 100)

    on(run, 3, program)
    assert path.read_bytes() == bytes([0, 1, 2]) * 100


@ranks(3)
async def test_open_with_wrong_arguments_in_one_process(world: World, path: Path) -> None:
    for bad, kind in [
        ((path, 2**63), FileError),
        ((path, "r"), TypeError),
        ((5, NEW), TypeError),
        ((path, NEW, {1: 2}), TypeError),
        (("a\0b", NEW), FileError),
    ]:
        expected = kind if world.rank == 1 else (FileError if kind is FileError else InvalidArgumentError)
        with pytest.raises(expected) as failure:
            await File.Open(world, *(bad if world.rank == 1 else (path, NEW)))
        assert world.rank == 1 or "at rank 1: " in str(failure.value)
    await (await File.Open(world, path, NEW)).Close()


def test_a_split_collective_is_the_only_one(run: Run, path: Path) -> None:
    """Rank 1 forgets to end its write: it is told so, and the others learn of it."""

    async def program(comm: Intracomm) -> None:
        file = await File.Open(comm, path, NEW)
        culprit = comm.rank == 1
        found = bytearray(1)
        file.Write_at_all_begin(comm.rank, b"x")
        await file.Write_at(5, b"y")  # an access that is not collective may come
        with pytest.raises(LocalProtocolError, match="whose end is Write_at_all_end"):
            file.Write_all_end(b"x")
        if not culprit:
            await file.Write_at_all_end(b"x")
        if culprit:
            with pytest.raises(LocalProtocolError, match="Write_at_all_begin has no Write_at_all_end yet"):
                file.Read_all_begin(found)
        else:
            file.Read_all_begin(found)
            with pytest.raises(OtherError, match=r"at rank 1: File_read_all .* has no Write_at_all_end yet"):
                await file.Read_all_end(found)
        calls: list[Call] = [
            lambda file: file.Read_all(found),
            lambda file: file.Iread_all(found),
            lambda file: file.Write_ordered(b"x"),
            lambda file: file.Set_view(),
            lambda file: file.Set_size(0),
            lambda file: file.Sync(),
        ]
        for call in calls:
            with pytest.raises(LocalProtocolError if culprit else OtherError, match="has no Write_at_all_end yet"):
                await call(file)
        if culprit:
            await file.Write_at_all_end(b"x")
        await file.Read_all(found)
        assert found == b"x"
        with pytest.raises(LocalProtocolError, match=r"Read_all_begin was not called before$"):
            file.Read_all_end(found)
        file.Write_all_begin(b"z")
        await file.Close()  # completes what was begun

    on(run, 3, program)
    assert path.read_bytes()[:3] == b"xzx"


@ranks(3)
async def test_a_rank_that_closes_instead(world: World, path: Path) -> None:
    """No rank waits for it any more, neither in the calls that follow nor to close the file."""
    file = await File.Open(world, path, NEW)
    with pytest.raises(FileError, match="has called File_") as failure:
        await (file.Close() if world.rank == 1 else file.Write_all(b"x"))
    assert failure.value.error_class == MPI.ERR_NOT_SAME
    if world.rank != 1:
        for call in (lambda: file.Read_all(bytearray(1)), file.Close):
            with pytest.raises(FileError, match="rank 1 has called File_close"):
                await call()
    assert not file


@pytest.mark.parametrize("face", ["native", "blocking"])
def test_real_processes(site: Site, face: str) -> None:
    opened = "aiompi.File" if face == "native" else "MPI.File"
    body = f"""
        from aiompi import MPI
        file = await {opened}.Open(comm, "f", MPI.MODE_CREATE | MPI.MODE_RDWR)
        for call in [
            lambda: file.Write_at_all(2**63 if comm.rank == 1 else 0, b"x"),
            lambda: file.Set_size(-1 if comm.rank == 1 else 0),
            lambda: file.Read_all(bytearray(1)) if comm.rank == 1 else file.Write_all(b"x"),
        ]:
            try:
                await call()
            except MPI.Exception as error:
                print(comm.rank, type(error).__name__, str(error).startswith("at rank 1: "))
        file.Write_all_begin(b"x")
        try:
            await file.Write_all(b"y")
        except MPI.Exception as error:
            print(comm.rank, type(error).__name__, "Write_all_begin has no Write_all_end yet" in str(error))
        await file.Write_all_end(b"x")
        await file.Close()
        """
    result = site.launch("-n", "3", site.program(in_face(face, body))).finish()
    assert (result.code, result.err) == (0, ""), result
    shown = 2 * [f"{rank} InvalidArgumentError {rank != 1}" for rank in range(3)]
    shown += [f"{rank} {error}" for rank in range(3) for error in ("FileError False", "LocalProtocolError True")]
    assert result.lines == sorted(shown)


@cases("message", [b"", b"\0\0\0\2\0\0\0\0{}", b"\0\0\0\1\0\0\0\0x", b"\0\0\0\0\0\0\0\1\xff"])
def test_a_malformed_message_of_a_rank_is_its_error(message: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="rank 3 takes part in a call on a file with a malformed message"):
        failures._parsed(3, message)
