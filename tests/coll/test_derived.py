"""Collectives with derived datatypes and with arrays that are not contiguous."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from aiompi.coll import buffers
from aiompi.datatype import DOUBLE, DOUBLE_INT, IN_PLACE, INT, SHORT, SHORT_INT, Datatype
from aiompi.errors import InvalidBufferError, InvalidOpError, InvalidTypeError
from aiompi.op import MAXLOC, MINLOC, SUM, Op
from support.cases import cases

SIZES = [1, 2, 3, 5, 7]
ROWS, COLUMNS = 4, 6

# Forms of four integers: (memory to start from, buffer specification of it, its four integers).
COLUMN = INT.Create_vector(ROWS, 1, COLUMNS).Commit()


def plain(numbers):
    memory = np.array(numbers, "i")
    return memory, memory, memory


def strided(numbers):
    memory = np.full(8, -7, "i")
    memory[::-2] = numbers
    return memory, memory[::-2], memory[::-2]


def column(numbers):
    memory = np.full((ROWS, COLUMNS), -7, "i")
    memory[:, 2] = numbers
    return memory, [memory.ravel()[2:], 1, COLUMN], memory[:, 2]


def hole(numbers):
    memory = np.full((4, 2), -7, "i")
    memory[:, 0] = numbers
    return memory, [memory, 4, INT.Create_resized(0, 8).Commit()], memory[:, 0]


FORMS = [plain, strided, column, hole]
form_pairs = cases("forms", [(a, b) for a in FORMS for b in FORMS])


def gaps(memory):
    """Return the number of integers in the memory that still have their first value."""
    return int((memory == -7).sum())


def first_of(rank):
    return np.arange(4) + 10 * rank


@pytest.mark.spec("S3.12-6", "S4.1-2", "S3.12.5-2", "S3.12.5-7")
@cases("size", SIZES)
@form_pairs
def test_bcast(forms, size, world):
    root = size - 1
    made = [forms[comm == root](first_of(comm)) for comm in range(size)]
    world(size).results(lambda comm: buffers.bcast(comm, made[comm.rank][1], root))
    for memory, _, numbers in made:
        assert numbers.tolist() == first_of(root).tolist()
        assert gaps(memory) == memory.size - 4


def blocked(form, size):
    """`size` blocks of four integers: memory, specification, view of shape (size, 4)."""
    if form is plain:
        memory = np.full((size, 4), -7, "i")
        return memory, memory, memory
    if form is strided:
        memory = np.full((2 * size, 8), -7, "i")
        return memory, memory[::2, ::2], memory[::2, ::2]
    if form is column:
        memory = np.full((4, size + 1), -7, "i")
        one = INT.Create_vector(4, 1, size + 1).Create_resized(0, 4).Commit()
        return memory, [memory, 1, one], memory[:, :size].T
    memory = np.full((size, 4, 2), -7, "i")
    return memory, [memory, 4, INT.Create_resized(0, 8).Commit()], memory[:, :, 0]


@pytest.mark.spec("S3.12-6", "S4.5-1", "S4.5-4", "S4.1-2")
@cases("size", SIZES)
@cases("in_place", [False, True])
@form_pairs
def test_gather(forms, in_place, size, world):
    root = size // 2
    memory, spec, table = blocked(forms[1], size)
    if in_place:
        table[root] = first_of(root)
    made = [forms[0](first_of(rank)) for rank in range(size)]

    def call(comm):
        send = IN_PLACE if in_place and comm.rank == root else made[comm.rank][1]
        return buffers.gather(comm, send, spec if comm.rank == root else None, root)

    world(size).results(call)
    assert table.tolist() == [first_of(rank).tolist() for rank in range(size)]
    assert gaps(memory) == memory.size - 4 * size


@pytest.mark.spec("S3.12-6", "S4.6-1", "S4.6-5", "S4.1-2")
@cases("size", SIZES)
@cases("in_place", [False, True])
@form_pairs
def test_scatter(forms, in_place, size, world):
    root = size // 2
    memory, spec, table = blocked(forms[1], size)
    table[:] = [first_of(rank) for rank in range(size)]
    before = memory.copy()
    made = [forms[0]([-1] * 4) for rank in range(size)]

    def call(comm):
        receive = IN_PLACE if in_place and comm.rank == root else made[comm.rank][1]
        return buffers.scatter(comm, spec if comm.rank == root else None, receive, root)

    world(size).results(call)
    assert np.array_equal(memory, before)
    for rank, (block, _, numbers) in enumerate(made):
        assert numbers.tolist() == ([-1] * 4 if in_place and rank == root else first_of(rank).tolist())
        assert gaps(block) == block.size - 4


@pytest.mark.spec("S3.12-6", "S4.7-1", "S4.1-2")
@cases("size", SIZES)
@cases("in_place", [False, True])
@form_pairs
def test_allgather(forms, in_place, size, world):
    tables = [blocked(forms[1], size) for _ in range(size)]
    made = [forms[0](first_of(rank)) for rank in range(size)]
    for rank in range(size if in_place else 0):
        tables[rank][2][rank] = first_of(rank)
    world(size).results(
        lambda comm: buffers.allgather(comm, IN_PLACE if in_place else made[comm.rank][1], tables[comm.rank][1])
    )
    for memory, _, table in tables:
        assert table.tolist() == [first_of(rank).tolist() for rank in range(size)]
        assert gaps(memory) == memory.size - 4 * size


@pytest.mark.spec("S3.12-6", "S4.8-1", "S4.1-2")
@cases("size", SIZES)
@cases("in_place", [False, True])
@form_pairs
def test_alltoall(forms, in_place, size, world):
    out, into = ([blocked(form, size) for _ in range(size)] for form in forms)
    for rank in range(size):
        (into if in_place else out)[rank][2][:] = [100 * rank + first_of(other) for other in range(size)]
    world(size).results(
        lambda comm: buffers.alltoall(comm, IN_PLACE if in_place else out[comm.rank][1], into[comm.rank][1])
    )
    for rank, (memory, _, table) in enumerate(into):
        assert table.tolist() == [(100 * other + first_of(rank)).tolist() for other in range(size)]
        assert gaps(memory) == memory.size - 4 * size


@pytest.mark.spec("S4.9.1-7")
@cases("size", SIZES)
@cases("in_place", [False, True])
@cases("everywhere", [False, True])
@pytest.mark.parametrize("forms", [(plain, strided), (strided, plain), (strided, strided)])
def test_reductions_of_strided_arrays(forms, everywhere, in_place, size, world):
    root = size // 2
    sources = [forms[0](first_of(rank)) for rank in range(size)]
    results = [forms[1](first_of(rank) if in_place else [0] * 4) for rank in range(size)]

    def call(comm):
        if everywhere:
            send = IN_PLACE if in_place else sources[comm.rank][1]
            return buffers.allreduce(comm, send, results[comm.rank][1], SUM)
        send = IN_PLACE if in_place and comm.rank == root else sources[comm.rank][1]
        return buffers.reduce(comm, send, results[comm.rank][1], SUM, root)

    world(size).results(call)
    total = sum(first_of(rank) for rank in range(size)).tolist()
    for rank, (memory, _, numbers) in enumerate(results):
        if everywhere or rank == root:
            assert numbers.tolist() == total
        assert gaps(memory) == memory.size - 4
    assert all(source[2].tolist() == first_of(rank).tolist() for rank, source in enumerate(sources))


@pytest.mark.spec("S4.9.3-1", "S4.9.3-5")
@pytest.mark.parametrize("datatype", [DOUBLE_INT, SHORT_INT])
@pytest.mark.parametrize("op", [MAXLOC, MINLOC])
def test_pairs_are_sent_without_padding_which_stays_as_it_is(op, datatype, world):
    ranks = world(3)
    pairs = np.frombuffer(bytearray(b"\x55" * (3 * 4 * datatype.extent)), datatype.dtype).reshape(3, 4)
    for rank in range(3):
        for i in range(4):
            pairs["value"][rank, i], pairs["index"][rank, i] = (rank * (i - 1)) % 3, rank
    result = np.frombuffer(bytearray(b"\x77" * (4 * datatype.extent)), datatype.dtype)
    ranks.results(lambda comm: buffers.reduce(comm, pairs[comm.rank], result, op, 0))
    best = max if op is MAXLOC else min
    expected = [best(pairs["value"][:, i]) for i in range(4)]
    assert result["value"].tolist() == expected
    assert result["index"].tolist() == [pairs["value"][:, i].tolist().index(expected[i]) for i in range(4)]
    assert sum(counter["bytes"] for counter in ranks.sent) == 2 * 4 * datatype.size
    padding = set(range(datatype.extent)) - set(_bytes_of_fields(datatype.dtype))
    raw = np.frombuffer(result.data.cast("B"), "B").reshape(4, -1)
    assert all((raw[:, i] == 0x77).all() for i in padding)


def _bytes_of_fields(dtype):
    for field, offset in dtype.fields.values():
        yield from range(offset, offset + field.itemsize)


# A user's operation on a struct with a gap: x -> a x + b, composed modulo a prime. It does not commute.
MAP = np.dtype([("a", "i2"), ("b", "f8")], align=True)
PRIME = 97


def compose(left, right, datatype):
    f, g = np.frombuffer(left, MAP), np.frombuffer(right, MAP)
    a, b = f["a"] * g["a"] % PRIME, (f["a"] * g["b"] + f["b"]) % PRIME
    g["a"], g["b"] = a, b


@pytest.mark.spec("S4.9.4-4", "S4.9.4-2", "S4.9.4-3", "S4.9.4-6")
@cases("size", SIZES)
@cases("everywhere", [False, True])
def test_a_users_function_gets_items_as_the_datatype_lays_them_out(everywhere, size, world):
    types = []

    def function(left, right, datatype):
        types.append(datatype)
        assert len(left) == len(right) == 3 * MAP.itemsize
        compose(left, right, datatype)

    datatype = Datatype.Create_struct([1, 1], [0, 8], [SHORT, DOUBLE]).Commit()
    maps = np.zeros((size, 3), MAP)
    for rank in range(size):
        maps["a"][rank], maps["b"][rank] = [rank + 2, 3, rank], [1, rank, 5]
    before, results = maps.copy(), np.zeros((size, 3), MAP)
    op = Op.Create(function)

    def call(comm):
        send, receive = [maps[comm.rank], datatype], [results[comm.rank], datatype]
        if everywhere:
            return buffers.allreduce(comm, send, receive, op)
        return buffers.reduce(comm, send, receive, op, size - 1)

    world(size).results(call)
    expected = before[0].copy()
    for rank in range(1, size):
        expected = functools.reduce(_composed, [expected, before[rank]])
    assert all(each is datatype for each in types)
    for result in results if everywhere else results[-1:]:
        assert result.tolist() == expected.tolist()
    assert maps.tolist() == before.tolist()


def _composed(f, g):
    result = g.copy()
    compose(f, result, None)
    return result


@pytest.mark.spec("S4.9.4-4")
def test_complex_product_of_a_contiguous_type(world):
    """Example 4.20."""

    def product(left, right, datatype):
        a, b = np.frombuffer(left, "c16"), np.frombuffer(right, "c16")
        b[:] = a * b

    kind = DOUBLE.Create_contiguous(2).Commit()
    vectors = np.exp(1j * np.arange(12).reshape(3, 4))
    answer = np.zeros(4, complex)
    op = Op.Create(product, commute=True)
    world(3).results(lambda comm: buffers.reduce(comm, [vectors[comm.rank], 4, kind], [answer, 4, kind], op, 0))
    assert np.allclose(answer, vectors.prod(axis=0))


def test_items_that_begin_before_their_address_cannot_be_given_to_a_function(world):
    kind = INT.Create_hindexed([1], [-4]).Create_resized(0, 8).Commit()
    spec = [np.zeros(8, "i"), (2, 1), kind]
    op = Op.Create(lambda left, right, datatype: None)
    with pytest.raises(InvalidTypeError, match=r"Allreduce on WORLD, rank 0: items of .* begin 4 bytes before"):
        buffers.allreduce(world(1).comms[0], spec, [np.zeros(8, "i"), (2, 1), kind], op)


@pytest.mark.spec("S4.9.2-2")
def test_predefined_operations_refuse_derived_types(world):
    kind = INT.Create_contiguous(2).Commit()
    with pytest.raises(InvalidOpError, match="MPI_SUM is not defined for contiguous of MPI_INT"):
        buffers.allreduce(world(1).comms[0], [np.zeros(4, "i"), kind], [np.zeros(4, "i"), kind], SUM)


ones = np.ones(8)
TWICE = DOUBLE.Create_vector(2, 2, 1).Commit()
UNCOMMITTED = DOUBLE.Create_vector(2, 1, 2)
REFUSED = [
    (
        lambda comm: buffers.bcast(comm, [ones, 1, UNCOMMITTED], 0),
        InvalidTypeError,
        "type in buffer.* is not committed",
    ),
    (lambda comm: buffers.bcast(comm, [ones, 1, TWICE], 1), InvalidTypeError, "type in buffer cannot receive"),
    (lambda comm: buffers.bcast(comm, [ones, 3, TWICE], 0), InvalidBufferError, "holds 64 bytes, but 3 items"),
    (lambda comm: buffers.gather(comm, ones[:4], [ones, 1, TWICE], 0), InvalidTypeError, "type in recvbuf cannot"),
    (lambda comm: buffers.scatter(comm, ones[::2], ones[4:6], 0), InvalidBufferError, "share memory"),
    (lambda comm: buffers.allgather(comm, ones[2:5:2], ones[::2]), InvalidBufferError, "share memory"),
    (lambda comm: buffers.alltoall(comm, ones[::4], ones[:2]), InvalidBufferError, "share memory"),
]


@pytest.mark.spec("S3.12.4-1", "S3.12.5-4", "S2.2-2", "S4.5-5")
@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_refused(call, error, message, world):
    ranks = world(2)
    with pytest.raises(error, match=f"on WORLD, rank 0: .*{message}"):
        call(ranks.comms[0])
    assert not ranks.deliver_one()


def test_interleaved_columns_of_one_table_are_apart(world):
    table = np.arange(24.0).reshape(2, 6, 2)
    expected = table[:, :, 0].copy()
    world(2).results(lambda comm: buffers.alltoall(comm, table[comm.rank, :, 0], table[comm.rank, :, 1]))
    assert np.array_equal(table[:, :, 1], expected.reshape(2, 2, 3).swapaxes(0, 1).reshape(2, 6))
    assert np.array_equal(table[:, :, 0], expected)


def test_blocks_without_gaps_are_received_where_they_belong(world):
    """Rows of part of a table: what arrives needs no copy."""
    table = np.full((2, 4), -1.0)
    requests = world(2).start(lambda comm: buffers.gather(comm, np.full(2, float(comm.rank)), table[:, :2], 0), [0])
    assert table[0].tolist() == [0, 0, -1, -1]
    assert not requests[0].done()
