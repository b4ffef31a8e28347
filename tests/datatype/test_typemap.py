"""Type maps of any nesting against the list of entries that the standard defines (section 3.12)."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiompi.constants import UNDEFINED
from aiompi.datatype import BYTE, DOUBLE, INT, Datatype
from support.datatype_model import BASICS, MODELS, Model, addresses, basic, check


@pytest.mark.spec("S3.12-1", "S3.12-3")
@pytest.mark.parametrize("datatype", BASICS, ids=str)
def test_predefined(datatype: Datatype) -> None:
    check(basic(datatype))


@pytest.mark.spec(
    "S3.12-1", "S3.12-4", "S3.12-6", "S3.12.1-1", "S3.12.1-3", "S3.12.1-4", "S3.12.1-5", "S3.12.1-7", "S3.12.1-8",
    "S3.12.2-3", "S3.12.2-4", "S3.12.3-1", "S3.12.3-2", "S3.12.3-4", "S3.12.3-5", "D4.1-1", "D4.1-2", "D4.1.2-1",
    "D4.1.2-2", "D4.1.2-3", "D4.1.3-1", "D4.1.3-2", "D4.1.3-3", "D4.1.6-1", "D4.1.7-1", "D4.1.7-2", "D4.1.7-3",
    "D4.1.8-1", "D4.1.10-1",
)  # fmt: skip
@settings(max_examples=300, deadline=None)
@given(MODELS)
def test_derived(model: Model) -> None:
    check(model)


@pytest.mark.spec("S3.12.5-1")
@settings(max_examples=100, deadline=None)
@given(MODELS, st.integers(0, 4))
def test_several_items_are_the_entries_at_multiples_of_the_extent(model: Model, count: int) -> None:
    several = model.datatype.layout_of(count)
    once = model.datatype.Create_contiguous(count)
    assert [column.tolist() for column in several.runs()] == [column.tolist() for column in once.layout.runs()]
    assert several.size == count * model.datatype.size


@pytest.mark.spec("D4.1.13-1", "D4.1.13-5")
@settings(max_examples=100, deadline=None)
@given(MODELS)
def test_what_is_decoded_or_pickled_is_made_again(model: Model) -> None:
    old, combiner, arguments = model.datatype.decode()
    again = [pickle.loads(pickle.dumps(model.datatype))]
    if combiner != "NAMED":
        again.append(getattr(old, f"Create_{combiner.lower()}")(**arguments))
    for datatype in again:
        check(model._replace(datatype=datatype))
        assert datatype.Get_envelope() == model.datatype.Get_envelope()


@pytest.mark.spec("S3.12.5-5", "S3.12.5-6")
@settings(max_examples=100, deadline=None)
@given(MODELS, st.data())
def test_elements_in_a_part_of_a_message(model: Model, data: Any) -> None:
    """An element counts when its last byte has come; a message that ends within one has no number of elements."""
    sizes = [kind.size for kind, _ in model.data] * 3
    nbytes = data.draw(st.integers(0, sum(sizes)))
    ends = {sum(sizes[:n]): n for n in range(len(sizes) + 1)}
    signature = model.datatype.signature
    assert signature.elements(nbytes) == ends.get(nbytes, UNDEFINED)
    if nbytes in ends:
        assert signature.nbytes(ends[nbytes]) == nbytes


@pytest.mark.spec("S3.12-6")
def test_nesting_deeper_than_pythons_stack() -> None:
    datatype = INT
    for _ in range(3000):
        datatype = datatype.Create_contiguous(1).Create_resized(0, 4)
    assert datatype.Commit().layout.size == datatype.external.size == 4


@pytest.mark.spec("D4.1.1-1")
def test_displacements_beyond_two_gigabytes() -> None:
    far = 2**40
    for datatype in (
        BYTE.Create_hvector(2, 1, far), BYTE.Create_hindexed([1, 1], [0, far]), BYTE.Create_hindexed_block(1, [0, far]),
        Datatype.Create_struct([1, 1], [0, far], [BYTE, BYTE]),
    ):  # fmt: skip
        assert datatype.extent == far + 1
        assert addresses(datatype) == [0, far]


def test_huge_counts_take_no_room() -> None:
    pair = Datatype.Create_struct([1, 1], [0, 8], [DOUBLE, INT])
    huge = pair.Create_contiguous(10**12).Create_vector(1000, 1, 2)
    assert huge.size == 12 * 10**15
    assert huge.signature.count == 2 * 10**15
    assert huge.signature.elements(12 * 10**14 + 8) == 2 * 10**14 + 1
    assert len(huge.layout.blocks) <= 2
