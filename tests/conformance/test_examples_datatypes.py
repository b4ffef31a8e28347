"""The examples of sections 3.12 and 3.13 of MPI-1.1 that communicate, with the outcomes that the text gives them.

In chapter 4 of MPI-3.1 they have the numbers in parentheses. Those that need no communication are in
`test_examples_type_maps`; `test_examples_blocking` runs the others once more, in the blocking face.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from aiompi import UNDEFINED, Datatype, Intracomm
from aiompi.datatype.deprecated import Address, Type_extent, Type_hvector, Type_struct
from aiompi.MPI import BOTTOM, CHAR, DOUBLE, FLOAT, INT, LB, PACKED, REAL, UB, Aint_diff, Get_address
from support.jobs import Site
from support.particles import (
    COUNT,
    PARTSTRUCT,
    UNTOUCHED,
    Particles,
    blank,
    check_received,
    class_zero_in_blocks,
    class_zero_one_by_one,
    particle_struct,
    particles,
)
from support.spmd import Run, completes, on_ranks

Array = npt.NDArray[np.float32]


def fortran(*shape: int) -> Array:
    """An array of reals, in Fortran's order, in which every element differs."""
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape, order="F")


def memory_from(array: Array, *index: int) -> Array:
    """The memory of an array in Fortran's order, from an element on: what `array(i, j, ...)` is as an argument."""
    return array.reshape(-1, order="F")[np.ravel_multi_index(index, array.shape, order="F") :]


# Section 3.12.5: matching.


@pytest.mark.spec("S3.12-2", "S3.12.5-1", "S3.12.5-2", "S3.3.1-2")
@on_ranks(2)
async def test_example_3_28(comm: Intracomm) -> None:
    """Types match by their basic types alone: each send matches each receive (4.11)."""
    type2 = REAL.Create_contiguous(2).Commit()
    type4 = REAL.Create_contiguous(4).Commit()
    type22 = type2.Create_contiguous(2).Commit()
    forms = [(4, REAL), (2, type2), (1, type22), (1, type4)]
    for number, ((sendcount, sendtype), (recvcount, recvtype)) in enumerate(itertools.product(forms, forms)):
        a = np.arange(number, number + 4, dtype=np.float32)
        if comm.rank == 0:
            await comm.Send([a, sendcount, sendtype], dest=1)
        else:
            b = np.zeros(4, np.float32)
            status = await comm.Recv([b, recvcount, recvtype], source=0)
            assert b.tolist() == a.tolist()
            assert (status.Get_count(recvtype), status.Get_elements(recvtype)) == (recvcount, 4)


@pytest.mark.spec("S3.12.5-3", "S3.12.5-5", "S3.12.5-6", "S3.12.5-7", "S3.2.5-4", "D4.1.11-2")
@on_ranks(2)
async def test_example_3_29(comm: Intracomm) -> None:
    """Count and elements of messages that do not fill the buffer, or not even whole items, also of a probe (4.12)."""
    type2 = REAL.Create_contiguous(2).Commit()
    a = np.arange(1, 5, dtype=np.float32)
    if comm.rank == 0:
        await comm.Send([a, 2, REAL], dest=1, tag=0)
        await comm.Send([a, 3, REAL], dest=1, tag=0)
    else:
        for elements, count in ((2, 1), (3, UNDEFINED)):
            b = np.zeros(4, np.float32)
            probed = await comm.Probe(source=0, tag=0)
            received = await comm.Recv([b, 2, type2], source=0, tag=0)
            for stat in (probed, received):
                assert (stat.Get_count(type2), stat.Get_elements(type2)) == (count, elements)
            assert b.tolist() == [*a[:elements], *[0] * (4 - elements)]


# Section 3.12.7: examples. Some send to themselves.


@pytest.mark.spec("S3.12.1-4", "S3.12-6", "S3.10-2", "S3.10-4")
@on_ranks(1)
async def test_example_3_30(comm: Intracomm) -> None:
    """A section of a three-dimensional array (4.13)."""
    a, e = fortran(100, 100, 100), np.zeros((9, 9, 9), np.float32, order="F")
    sizeofreal = Type_extent(REAL)
    oneslice = REAL.Create_vector(9, 1, 2)
    twoslice = Type_hvector(9, 1, 100 * sizeofreal, oneslice)
    threeslice = Type_hvector(9, 1, 100 * 100 * sizeofreal, twoslice).Commit()
    section = [memory_from(a, 0, 2, 1), 1, threeslice]
    status = await comm.Sendrecv(section, comm.rank, 0, [e, 9 * 9 * 9, REAL], comm.rank, 0)
    assert status.Get_count(REAL) == 729
    assert np.array_equal(e, a[0:17:2, 2:11, 1:10])


@pytest.mark.spec("S3.12.1-5", "S3.12.5-7")
@on_ranks(1)
async def test_example_3_31(comm: Intracomm) -> None:
    """The strictly lower triangular part of a matrix (4.14)."""
    a, b = fortran(100, 100), np.full((100, 100), -1, np.float32, order="F")
    columns = range(1, 101)
    ltype = REAL.Create_indexed([100 - i for i in columns], [100 * (i - 1) + i for i in columns]).Commit()
    status = await comm.Sendrecv([a, 1, ltype], comm.rank, 0, [b, 1, ltype], comm.rank, 0)
    assert (status.Get_count(ltype), status.Get_elements(ltype)) == (1, 4950)
    assert np.array_equal(b, np.where(np.tri(100, k=-1), a, -1))


@pytest.mark.spec("S3.12.1-3", "S3.12.1-4", "S3.12.5-2")
@on_ranks(1)
async def test_example_3_32(comm: Intracomm) -> None:
    """A matrix is sent by rows and received by columns, which transposes it (4.15)."""
    a, b = fortran(100, 100), np.zeros((100, 100), np.float32, order="F")
    row = REAL.Create_vector(100, 1, 100)
    xpose = Type_hvector(100, 1, Type_extent(REAL), row).Commit()
    await comm.Sendrecv([a, 1, xpose], comm.rank, 0, [b, 100 * 100, REAL], comm.rank, 0)
    assert np.array_equal(b, a.T)


@pytest.mark.spec("S3.12.3-1", "S3.12.5-1", "D4.1.7-3")
@pytest.mark.parametrize(
    "shrink",
    [
        lambda row, extent: Type_struct([1, 1], [0, extent], [row, UB]),
        lambda row, extent: row.Create_resized(0, extent),
    ],
    ids=["marker", "resized"],
)
def test_example_3_33(run: Run, shrink: Callable[[Datatype, int], Datatype]) -> None:
    """Transposing with a type of a row that ends, as its extent says, where the next one begins (4.16)."""

    async def program(comm: Intracomm) -> None:
        a, b = fortran(100, 100), np.zeros((100, 100), np.float32, order="F")
        row = REAL.Create_vector(100, 1, 100)
        row1 = shrink(row, Type_extent(REAL)).Commit()
        await comm.Sendrecv([a, 100, row1], comm.rank, 0, [b, 100 * 100, REAL], comm.rank, 0)
        assert np.array_equal(b, a.T)

    run(completes(1, program))


def offsets(particle: Particles) -> list[int]:
    """Displacements of the components of a structure, from its address."""
    base = Get_address(particle)
    return [Aint_diff(Get_address(particle[name]), base) for name in ("class", "d", "b")]


def plain(particle: Particles) -> Datatype:
    """The type of a structure as it follows from its components."""
    return particle_struct(offsets(particle))


def padded(particle: Particles) -> Datatype:
    """The type of a structure up to the address of the next one, by a marker."""
    end = Address(particle[1:]) - Address(particle)
    return Type_struct([1, 6, 7, 1], [*offsets(particle), end], [INT, DOUBLE, CHAR, UB])


def resized(particle: Particles) -> Datatype:
    """The type of a structure up to the address of the next one, by its extent."""
    return particle_struct(offsets(particle)).Create_resized(0, Address(particle[1:]) - Address(particle))


@pytest.mark.spec("S3.12.1-8", "S3.12-4", "S3.12.2-3", "S3.12.5-7")
@pytest.mark.parametrize("describe", [plain, padded, resized])
def test_example_3_34_all(run: Run, describe: Callable[[Particles], Datatype]) -> None:
    """Structures: an array of them, without the padding in it (4.17)."""

    async def program(comm: Intracomm) -> None:
        particle = particles()
        assert offsets(particle) == [0, 8, 56]
        particletype = describe(particle).Commit()
        assert (particletype.size, particletype.extent) == (59, 64)
        if comm.rank == 0:
            await comm.Send([particle, COUNT, particletype], dest=1)
        else:
            received = blank(COUNT)
            status = await comm.Recv([received, COUNT, particletype], source=0)
            assert (status.Get_count(particletype), status.Get_elements(particletype)) == (COUNT, 14 * COUNT)
            check_received(received, particle)

    run(completes(2, program))


async def receive_counted(comm: Intracomm) -> None:
    """Receive the number of the particles of class zero and then these, of which there might be up to all."""
    particle = particles()
    zeros = particle[particle["class"] == 0]
    counted = np.dtype([("count", np.intc), ("particle", PARTSTRUCT, COUNT)], align=True)
    memory = np.full(counted.itemsize, UNTOUCHED, np.uint8).view(counted)
    particletype = particle_struct(offsets(particle))
    assert counted.fields is not None
    both = Datatype.Create_struct([1, COUNT], [0, counted.fields["particle"][1]], [INT, particletype]).Commit()
    status = await comm.Recv([memory, 1, both], source=0)
    assert (status.Get_count(both), status.Get_elements(both)) == (UNDEFINED, 1 + 14 * len(zeros))
    assert memory["count"] == len(zeros)
    check_received(memory["particle"][0], zeros)


@pytest.mark.spec("S3.12.1-5", "S3.12.2-2", "S3.12.5-3", "S3.12.5-5", "S3.12.6-1")
@pytest.mark.parametrize("select", [class_zero_one_by_one, class_zero_in_blocks])
def test_example_3_34_class_zero(run: Run, select: Callable[[Particles], tuple[list[int], list[int]]]) -> None:
    """Structures: those of class zero, and before them their number, which is another variable (4.17)."""

    async def program(comm: Intracomm) -> None:
        if comm.rank == 1:
            return await receive_counted(comm)
        particle = particles()
        zblock, zdisp = select(particle)
        zparticles = particle_struct(offsets(particle)).Create_indexed(zblock, zdisp)
        j = np.array([sum(zblock)], np.intc)
        ztype = Datatype.Create_struct([1, 1], [Get_address(j), Get_address(particle)], [INT, zparticles]).Commit()
        return await comm.Send([BOTTOM, 1, ztype], dest=1)

    run(completes(2, program))


def from_first_coordinate(particle: Particles) -> npt.NDArray[np.uint8]:
    """The memory from `particle[0].d` on."""
    return particle.view(np.uint8)[offsets(particle)[1] :]


def all_pairs(particle: Particles) -> tuple[object, int, Datatype]:
    extent = Type_extent(particle_struct(offsets(particle)))
    return from_first_coordinate(particle), 1, Type_hvector(COUNT, 2, extent, DOUBLE)


def pairs_between_markers(particle: Particles) -> tuple[object, int, Datatype]:
    base, coordinates, end = Address(particle), Address(particle["d"]), Address(particle[1:])
    return particle, COUNT, Type_struct([1, 2, 1], [0, coordinates - base, end - base], [LB, DOUBLE, UB])


def pairs_resized(particle: Particles) -> tuple[object, int, Datatype]:
    pair = DOUBLE.Create_contiguous(2)
    return from_first_coordinate(particle), COUNT, pair.Create_resized(0, particle.itemsize)


@pytest.mark.spec("S3.12.1-4", "S3.12.3-1", "S3.12.3-2", "S3.12.5-1", "D4.1.7-3")
@pytest.mark.parametrize("describe", [all_pairs, pairs_between_markers, pairs_resized])
def test_example_3_34_first_coordinates(
    run: Run, describe: Callable[[Particles], tuple[object, int, Datatype]]
) -> None:
    """Structures: the first two coordinates of each (4.17)."""

    async def program(comm: Intracomm) -> None:
        particle = particles()
        if comm.rank == 0:
            memory, count, datatype = describe(particle)
            await comm.Send([memory, count, datatype.Commit()], dest=1)
        else:
            received = np.zeros((COUNT, 2))
            status = await comm.Recv([received, 2 * COUNT, DOUBLE], source=0)
            assert status.Get_count(DOUBLE) == 2 * COUNT
            assert np.array_equal(received, particle["d"][:, :2])

    run(completes(2, program))


def absolute(particle: Particles) -> Datatype:
    """Type of the first structure, with the addresses of its components."""
    return particle_struct([Get_address(particle[name]) for name in ("class", "d", "b")])


@pytest.mark.spec("S3.12.2-2", "S3.12.5-1", "S3.12.5-7")
@on_ranks(2)
async def test_example_3_35_all(comm: Intracomm) -> None:
    """Structures with absolute addresses: an array of them, at both ends (4.18)."""
    particle = particles() if comm.rank == 0 else blank(COUNT)
    particletype = absolute(particle).Commit()
    if comm.rank == 0:
        await comm.Send([BOTTOM, COUNT, particletype], dest=1)
    else:
        status = await comm.Recv([BOTTOM, COUNT, particletype], source=0)
        assert status.Get_count(particletype) == COUNT
        check_received(particle, particles())


@pytest.mark.spec("S3.12.2-2", "S3.12.6-1")
@on_ranks(2)
async def test_example_3_35_class_zero(comm: Intracomm) -> None:
    """Structures with absolute addresses: those of class zero, and before them their number (4.18)."""
    if comm.rank == 1:
        return await receive_counted(comm)
    particle = particles()
    zblock, zdisp = class_zero_in_blocks(particle)
    zparticles = absolute(particle).Create_indexed(zblock, zdisp)
    j = np.array([sum(zblock)], np.intc)
    ztype = Datatype.Create_struct([1, 1], [Get_address(j), BOTTOM], [INT, zparticles]).Commit()
    return await comm.Send([BOTTOM, 1, ztype], dest=1)


class Number(ctypes.Union):
    """The union of the example."""

    _fields_ = (("ival", ctypes.c_int), ("fval", ctypes.c_float))


class WideNumber(ctypes.Union):
    """A union that is larger than the member in use."""

    _fields_ = (("ival", ctypes.c_int), ("fval", ctypes.c_float), ("dval", ctypes.c_double))


def marked(member: Datatype, extent: int) -> Datatype:
    return Type_struct([1, 1], [0, extent], [member, UB])


def sized(member: Datatype, extent: int) -> Datatype:
    return member.Create_resized(0, extent)


@pytest.mark.spec("S3.12.3-1", "S3.12.3-2", "S3.12.5-7", "D4.1.7-2", "D4.1.7-3")
@pytest.mark.parametrize("union", [Number, WideNumber])
@pytest.mark.parametrize("extend", [marked, sized])
def test_example_3_36(run: Run, union: type[Number | WideNumber], extend: Callable[[Datatype, int], Datatype]) -> None:
    """Unions: sent with the type of the member in use, one extent of the union apart (4.19)."""

    async def program(comm: Intracomm) -> None:
        u = (union * 1000)()
        extent = Aint_diff(Get_address(memoryview(u)[1:]), Get_address(u))
        assert extent == ctypes.sizeof(union)
        utypes = {name: extend(member, extent).Commit() for name, member in (("ival", INT), ("fval", FLOAT))}
        for name, factor in (("ival", 3), ("fval", 0.25)):
            if comm.rank == 0:
                for i in range(1000):
                    setattr(u[i], name, i * factor)
                await comm.Send([u, 1000, utypes[name]], dest=1)
            else:
                ctypes.memset(u, UNTOUCHED, ctypes.sizeof(u))
                await comm.Recv([u, 1000, utypes[name]], source=0)
                assert [getattr(item, name) for item in u] == [i * factor for i in range(1000)]
                assert set(b"".join(bytes(item)[4:] for item in u)) <= {UNTOUCHED}

    run(completes(2, program))


# Section 3.13: pack and unpack.


@pytest.mark.spec("S3.13-1", "S3.13-2", "S3.13-3", "S3.3.1-5")
@on_ranks(2)
async def test_example_3_37(comm: Intracomm) -> None:
    """Packed one by one, received as an array (4.21)."""
    if comm.rank == 0:
        i, j = np.array([11], np.intc), np.array([-22], np.intc)
        buff = bytearray(1000)
        position = INT.Pack([i, 1], buff, 0, comm)
        position = INT.Pack([j, 1], buff, position, comm)
        await comm.Send([buff, position, PACKED], dest=1, tag=0)
    else:
        a = np.zeros(2, np.intc)
        status = await comm.Recv([a, 2, INT], source=0, tag=0)
        assert status.Get_count(INT) == 2
        assert a.tolist() == [11, -22]


@pytest.mark.spec("S3.13-3", "S3.13-4", "S3.13-5", "S3.13-6", "S3.13-10", "S3.3.1-5")
@pytest.mark.parametrize("packed", [True, False])
def test_example_3_38(run: Run, packed: bool) -> None:
    """A count and so many numbers, packed by one call or sent with their type, unpacked by two calls (4.22)."""

    async def send(comm: Intracomm) -> None:
        i, a = np.array([300], np.intc), np.arange(1000, dtype=np.float32)
        newtype = Datatype.Create_struct([1, i[0]], [Get_address(i), Get_address(a)], [INT, FLOAT]).Commit()
        if packed:
            buff = bytearray(2000)
            position = newtype.Pack([BOTTOM, 1], buff, 0, comm)
            await comm.Send([buff, position, PACKED], dest=1, tag=0)
        else:
            await comm.Send([BOTTOM, 1, newtype], dest=1, tag=0)

    async def receive(comm: Intracomm) -> None:
        i, a, buff = np.zeros(1, np.intc), np.full(1000, -1, np.float32), bytearray(2000)
        await comm.Recv([buff, len(buff), PACKED], source=0, tag=0)
        position = INT.Unpack(buff, 0, [i, 1], comm)
        position = FLOAT.Unpack(buff, position, [a, i[0]], comm)
        assert a.tolist() == [*range(300), *[-1] * 700]
        assert position == 301 * 4

    run(completes(2, lambda comm: (send, receive)[comm.rank](comm)))


@pytest.mark.spec("S3.13-5", "S3.13-8", "S3.13-11")
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_example_3_39(run: Run, size: int) -> None:
    """Every rank packs a count and so many characters; the root gathers the units and joins the characters (4.23)."""
    words = [b"each ", b"process ", b"", b"sends characters", b"."]

    async def program(comm: Intracomm) -> None:
        root, text = size - 1, words[comm.rank]
        lbuf = bytearray(INT.Pack_size(1, comm) + CHAR.Pack_size(len(text), comm))
        position = INT.Pack(np.array([len(text)], np.intc), lbuf, 0, comm)
        position = CHAR.Pack([text, len(text)], lbuf, position, comm)
        length = np.array([position], np.intc)
        if comm.rank != root:
            await comm.Gather([length, 1, INT], None, root)
            await comm.Gatherv([lbuf, position, PACKED], None, root)
            return
        counts = np.zeros(size, np.intc)
        await comm.Gather([length, 1, INT], [counts, 1, INT], root)
        displs = np.concatenate(([0], np.cumsum(counts)[:-1]))
        rbuf, cbuf, filled = bytearray(counts.sum()), bytearray(100), 0
        await comm.Gatherv([lbuf, position, PACKED], [rbuf, (counts, displs), PACKED], root)
        for displ in displs:
            count = np.zeros(1, np.intc)
            position = INT.Unpack(memoryview(rbuf)[displ:], 0, [count, 1], comm)
            CHAR.Unpack(memoryview(rbuf)[displ:], position, [memoryview(cbuf)[filled:], count[0]], comm)
            filled += count[0]
        assert cbuf[:filled] == b"".join(words[:size])

    run(completes(size, program))


# What only MPI-3.1 has.


@pytest.mark.spec("S3.12.5-7")
@on_ranks(2)
async def test_advice_of_section_4_1_6(comm: Intracomm) -> None:
    """What is in a gap is not communicated; a gap that is made an element is, and leaves the type contiguous."""
    memory = np.dtype([("x", np.float32, 3), ("gap", np.float32), ("p", np.float64)])
    with_gap = Datatype.Create_struct([3, 1], [0, 16], [REAL, DOUBLE]).Commit()
    without = Datatype.Create_struct([3, 1, 1], [0, 12, 16], [REAL, REAL, DOUBLE]).Commit()
    assert [(made.size, made.extent) for made in (with_gap, without)] == [(20, 24), (24, 24)]
    for datatype, gap in ((with_gap, -1), (without, 8)):
        my_data = np.full(5, -1, memory)
        if comm.rank == 0:
            my_data["x"], my_data["gap"], my_data["p"] = 7, 8, 9
            await comm.Send([my_data, 5, datatype], dest=1)
        else:
            await comm.Recv([my_data, 5, datatype], source=0)
            assert my_data["x"].tolist() == [[7] * 3] * 5
            assert my_data["p"].tolist() == [9] * 5
            assert my_data["gap"].tolist() == [gap] * 5


LARGE = 1000
DECODE = f"""
import sys
from aiompi import MPI
blocks = int(sys.argv[1])
datatype = MPI.INT.Create_indexed([1] * blocks, range(0, 2 * blocks, 2))
ni, na, nc, nd, combiner = datatype.Get_envelope()
if max(ni, na, nc, nd) > {LARGE}:
    print(f"{{ni}} integers, {{na}} addresses or {{nd}} datatypes are more than {LARGE}", file=sys.stderr, flush=True)
    MPI.COMM_WORLD.Abort(99)
i, a, _, d = datatype.Get_contents()
print(combiner == MPI.COMBINER_INDEXED, i == [blocks, *[1] * blocks, *range(0, 2 * blocks, 2)], a, d == [MPI.INT])
"""


@pytest.mark.spec("D4.1.13-1", "S7.5-6")
@pytest.mark.parametrize(("blocks", "code"), [(499, 0), (500, 99)])
def test_snippet_of_section_4_1_13(site: Site, blocks: int, code: int) -> None:
    """Any type is decoded into arrays, unless it has too many arguments for them: then the job is aborted."""
    result = site.run(1, DECODE, str(blocks))
    assert result.code == code
    assert result.out == ("" if code else "True True [] True\n")
    assert ("1001 integers, 0 addresses or 1 datatypes are more than 1000\n" in result.err) == bool(code)
