"""The examples of sections 3.12 and 3.13: derived datatypes and packing."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from table import comm, example, nothing, rank, reals, size

from aiompi import MPI
from aiompi.MPI import CHAR, DOUBLE, FLOAT, INT, PACKED, REAL
from support.particles import COUNT, PARTSTRUCT, blank, check_received, class_zero_in_blocks, particle_struct, particles


@example(2)
def example_3_28() -> None:
    type2, type4 = REAL.Create_contiguous(2).Commit(), REAL.Create_contiguous(4).Commit()
    type22, a = type2.Create_contiguous(2).Commit(), reals(4)
    forms = [(4, REAL), (2, type2), (1, type22), (1, type4)]
    for sent, received in itertools.product(forms, forms):
        if rank == 0:
            comm.Send([a, *sent], dest=1)
        else:
            b = nothing(4)
            comm.Recv([b, *received], source=0)
            assert np.array_equal(a, b)


@example(2)
def example_3_29() -> None:
    type2, a, stat = REAL.Create_contiguous(2).Commit(), reals(4), MPI.Status()
    if rank == 0:
        comm.Send([a, 2, REAL], dest=1, tag=0)
        comm.Send([a, 3, REAL], dest=1, tag=0)
    else:
        comm.Recv([a, 2, type2], source=0, tag=0, status=stat)
        assert (stat.Get_count(type2), stat.Get_elements(type2)) == (1, 2)
        comm.Recv([a, 2, type2], source=0, tag=0, status=stat)
        assert (stat.Get_count(type2), stat.Get_elements(type2)) == (MPI.UNDEFINED, 3)


def matrices() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    return reals(100 * 100).reshape((100, 100), order="F"), nothing(100 * 100).reshape((100, 100), order="F")


@example(1)
def example_3_30() -> None:
    a, e = reals(100**3).reshape((100, 100, 100), order="F"), np.zeros((9, 9, 9), np.float32, order="F")
    oneslice = REAL.Create_vector(9, 1, 2)
    twoslice = MPI.Type_hvector(9, 1, 100 * REAL.extent, oneslice)
    threeslice = MPI.Type_hvector(9, 1, 100 * 100 * REAL.extent, twoslice).Commit()
    from_a_1_3_2 = a.reshape(-1, order="F")[2 * 100 + 100 * 100 :]
    comm.Sendrecv([from_a_1_3_2, 1, threeslice], rank, 0, [e, 729, REAL], rank, 0)
    assert np.array_equal(e, a[0:17:2, 2:11, 1:10])


@example(1)
def example_3_31() -> None:
    a, b = matrices()
    ltype = REAL.Create_indexed(range(99, -1, -1), range(1, 100 * 100 + 1, 101)).Commit()
    comm.Sendrecv([a, 1, ltype], rank, 0, [b, 1, ltype], rank, 0)
    assert np.array_equal(b, np.where(np.tri(100, k=-1), a, -1))


@example(1)
def example_3_32() -> None:
    a, b = matrices()
    xpose = MPI.Type_hvector(100, 1, REAL.extent, REAL.Create_vector(100, 1, 100)).Commit()
    comm.Sendrecv([a, 1, xpose], rank, 0, [b, 100 * 100, REAL], rank, 0)
    assert np.array_equal(b, a.T)


@example(1)
def example_3_33() -> None:
    a, b = matrices()
    row1 = MPI.Type_struct([1, 1], [0, REAL.extent], [REAL.Create_vector(100, 1, 100), MPI.UB]).Commit()
    comm.Sendrecv([a, 100, row1], rank, 0, [b, 100 * 100, REAL], rank, 0)
    assert np.array_equal(b, a.T)


def receive_counted() -> None:
    """Receive the number of the particles of class zero, and then these, into variables of their own."""
    count, received, particle = np.zeros(1, np.intc), blank(COUNT), particles()
    addresses = [MPI.Get_address(received[name]) for name in ("class", "d", "b")]
    both = MPI.Type_struct([1, COUNT], [MPI.Get_address(count), 0], [INT, particle_struct(addresses)]).Commit()
    comm.Recv([MPI.BOTTOM, 1, both], source=0)
    zeros = particle[particle["class"] == 0]
    assert count[0] == len(zeros)
    check_received(received, zeros)


@example(2)
def example_3_34() -> None:
    particle, received, pairs = particles(), blank(COUNT), np.zeros((COUNT, 2))
    particletype = particle_struct([0, 8, 56]).Create_resized(0, PARTSTRUCT.itemsize).Commit()
    zblock, zdisp = class_zero_in_blocks(particle)
    zparticles, j = particletype.Create_indexed(zblock, zdisp), np.array([sum(zblock)], np.intc)
    ztype = MPI.Type_struct([1, 1], [MPI.Get_address(j), MPI.Get_address(particle)], [INT, zparticles]).Commit()
    allpairs = MPI.Type_hvector(COUNT, 2, particletype.extent, DOUBLE).Commit()
    if rank == 0:
        comm.Send([particle, COUNT, particletype], dest=1)
        comm.Send([MPI.BOTTOM, 1, ztype], dest=1)
        comm.Send([particle.view(np.uint8)[8:], 1, allpairs], dest=1)
    else:
        comm.Recv([received, COUNT, particletype], source=0)
        check_received(received, particle)
        receive_counted()
        comm.Recv([pairs, 2 * COUNT, DOUBLE], source=0)
        assert np.array_equal(pairs, particle["d"][:, :2])


@example(2)
def example_3_35() -> None:
    particle = particles() if rank == 0 else blank(COUNT)
    particletype = particle_struct([MPI.Get_address(particle[name]) for name in ("class", "d", "b")]).Commit()
    if rank == 0:
        comm.Send([MPI.BOTTOM, COUNT, particletype], dest=1)
        zblock, zdisp = class_zero_in_blocks(particle)
        zparticles, j = particletype.Create_indexed(zblock, zdisp), np.array([sum(zblock)], np.intc)
        ztype = MPI.Type_struct([1, 1], [MPI.Get_address(j), MPI.BOTTOM], [INT, zparticles]).Commit()
        comm.Send([MPI.BOTTOM, 1, ztype], dest=1)
    else:
        comm.Recv([MPI.BOTTOM, COUNT, particletype], source=0)
        check_received(particle, particles())
        receive_counted()


@example(2)
def example_3_36() -> None:
    """The union lies in 8 bytes, of which the member in use takes the first 4."""
    for member, kind in ((INT, np.intc), (FLOAT, np.float32)):
        union = np.dtype({"names": ["member"], "formats": [kind], "itemsize": 8})
        u, utype = np.zeros(1000, union), MPI.Type_struct([1, 1], [0, 8], [member, MPI.UB]).Commit()
        if rank == 0:
            u["member"] = range(1000)
            comm.Send([u, 1000, utype], dest=1)
        else:
            comm.Recv([u, 1000, utype], source=0)
            assert u["member"].tolist() == list(range(1000))


@example(2)
def example_3_37() -> None:
    buff, a = bytearray(1000), np.zeros(2, np.intc)
    if rank == 0:
        position = INT.Pack(np.array([11], np.intc), buff, 0, comm)
        position = INT.Pack(np.array([-22], np.intc), buff, position, comm)
        comm.Send([buff, position, PACKED], dest=1, tag=0)
    else:
        comm.Recv([a, 2, INT], source=0, tag=0)
        assert a.tolist() == [11, -22]


@example(2)
def example_3_38() -> None:
    i, a, buff = np.array([300], np.intc), reals(1000), bytearray(2000)
    if rank == 0:
        newtype = MPI.Type_struct([1, i[0]], [MPI.Get_address(i), MPI.Get_address(a)], [INT, FLOAT]).Commit()
        position = newtype.Pack(MPI.BOTTOM, buff, 0, comm)
        comm.Send([buff, position, PACKED], dest=1, tag=0)
        comm.Send([MPI.BOTTOM, 1, newtype], dest=1, tag=0)
        return
    for _ in range(2):
        i[0], a[:] = 0, -1
        comm.Recv([buff, 2000, PACKED], source=0, tag=0)
        position = INT.Unpack(buff, 0, i, comm)
        FLOAT.Unpack(buff, position, [a, i[0]], comm)
        assert a.tolist() == [*range(300), *[-1] * 700]


@example(size)
def example_3_39() -> None:
    words, root = [b"gathered ", b"", b"and joined"], 0
    text = words[rank]
    lbuf = bytearray(INT.Pack_size(1, comm) + CHAR.Pack_size(len(text), comm))
    position = INT.Pack(np.array([len(text)], np.intc), lbuf, 0, comm)
    position = CHAR.Pack(text, lbuf, position, comm)
    counts = np.zeros(size, np.intc)
    comm.Gather([np.array([position], np.intc), 1, INT], [counts, 1, INT], root)
    displs, rbuf, joined = np.concatenate(([0], np.cumsum(counts)[:-1])), bytearray(counts.sum()), b""
    comm.Gatherv([lbuf, position, PACKED], [rbuf, (counts, displs), PACKED] if rank == root else None, root)
    for displ in displs if rank == root else ():
        count = np.zeros(1, np.intc)
        position = INT.Unpack(memoryview(rbuf)[displ:], 0, count, comm)
        CHAR.Unpack(memoryview(rbuf)[displ:], position, part := bytearray(count[0]), comm)
        joined += part
    assert joined == (b"".join(words[:size]) if rank == root else b"")
