"""What members agree on although some of them fail, without processes."""

from __future__ import annotations

import random

import pytest

from aiompi.errors import RemoteProtocolError
from aiompi.wire import agreement
from aiompi.wire.agreement import Agreements, Results
from aiompi.wire.control import Agree, Agreed
from support.cases import cases

MEMBERS = [0, 1, 2]


def part(flag: int = -1, proposal: int = 0, acknowledged: tuple[int, ...] = (), number: int = 0) -> Agree:
    return Agree(4, number, MEMBERS, flag, proposal, [*acknowledged])


def test_flags_are_combined_and_the_largest_proposal_counts() -> None:
    agreements = Agreements(6)
    assert agreements.agree(0, part(0b110, 8)) == []
    assert agreements.agree(2, part(0b011, 12)) == []
    result = Agreed(4, 0, 0b010, 12, [], True)
    assert agreements.agree(1, part(0b111, 10)) == [(0, result), (2, result), (1, result)]


def test_failed_members_are_not_waited_for() -> None:
    agreements = Agreements(6)
    agreements.agree(0, part(6))
    agreements.agree(1, part(3))
    assert agreements.fail(2) == [(rank, Agreed(4, 0, 2, 0, [2], False)) for rank in (0, 1)]
    agreements.agree(0, part(acknowledged=(2,), number=1))
    assert agreements.agree(1, part(acknowledged=(2,), number=1))[0][1].acknowledged
    agreements.agree(0, part(acknowledged=(2,), number=2))
    assert not agreements.agree(1, part(number=2))[0][1].acknowledged, "one member does not know of the failure"


def test_part_of_a_member_that_fails_then_counts() -> None:
    agreements = Agreements(6)
    agreements.agree(0, part(1))
    agreements.fail(0)
    agreements.agree(1, part(3))
    assert agreements.agree(2, part(3)) == [(rank, Agreed(4, 0, 1, 0, [0], False)) for rank in (1, 2)]


@cases(
    ("rank", "wrong", "text"),
    [
        (3, part(), "is no member"),
        (0, part(), "twice"),
        (1, Agree(4, 0, [0, 1, 6], 0, 0, []), "that there are not"),
        (1, Agree(4, 0, [0, 1, 1], 0, 0, []), "that there are not"),
        (1, part(acknowledged=(3,)), "that there are not"),
    ],
)
def test_what_breaks_the_protocol(rank: int, wrong: Agree, text: str) -> None:
    agreements = Agreements(6)
    agreements.agree(0, part())
    with pytest.raises(RemoteProtocolError, match=text):
        agreements.agree(rank, wrong)
    with pytest.raises(RemoteProtocolError, match="is no member"):
        agreements.agree(0, Agree(8, 0, [1, 2], 0, 0, []))
    assert agreements.fail(5) == []


def test_one_rank_cannot_begin_any_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "MAX_OPEN", 3)
    agreements = Agreements(6)
    for number in range(3):
        agreements.agree(0, part(number=number))
    with pytest.raises(RemoteProtocolError, match="more than 3 agreements"):
        agreements.agree(0, part(number=3))
    agreements.agree(1, part(number=3))


@cases("forged", [[2, 0], [2], [2, 1, 0], [0, 2, 3]])
def test_a_rank_that_names_other_members_costs_no_other_rank_its_place(forged: list[int]) -> None:
    agreements = Agreements(6)
    agreements.agree(2, Agree(4, 0, forged, 0, 2**63, []))
    assert agreements.agree(0, part(6)) == []
    assert agreements.agree(1, part(3)) == []
    result = Agreed(4, 0, 2, 0, [2], False)
    assert [each for each in agreements.fail(2) if each[1].proposal == 0] == [(0, result), (1, result)]


@cases("seed", range(20))
def test_results_are_uniform(seed: int) -> None:
    """Whatever fails when, all that get a result of an agreement get the same, and no living member is left out."""
    rng = random.Random(seed)
    members = list(range(6))
    agreements = Agreements(6)
    todo = {rank: list(range(10)) for rank in members}
    got: dict[int, dict[int, Agreed]] = {rank: {} for rank in members}

    def take(results: Results) -> None:
        for rank, agreed in results:
            assert rank in todo, "a failed rank gets nothing"
            got[rank][agreed.number] = agreed

    while any(todo.values()):
        rank = rng.choice([rank for rank, numbers in todo.items() if numbers])
        if len(todo) > 1 and rng.random() < 0.05:
            del todo[rank]
            take(agreements.fail(rank))
        else:
            flag = rng.getrandbits(8)
            take(agreements.agree(rank, Agree(2, todo[rank].pop(0), members, flag, rng.randrange(99), [])))
    for number in range(10):
        assert len({str(got[rank][number]) for rank in todo}) == 1


def test_communicators_without_common_members_may_have_one_context_id() -> None:
    agreements = Agreements(4)
    assert agreements.agree(0, Agree(4, 0, [0, 2], 1, 0, [])) == []
    assert agreements.agree(1, Agree(4, 0, [1, 3], 2, 0, [])) == []
    assert agreements.agree(2, Agree(4, 0, [0, 2], 3, 0, []))[0] == (0, Agreed(4, 0, 1, 0, [], True))
    assert agreements.agree(3, Agree(4, 0, [1, 3], 2, 0, []))[0] == (1, Agreed(4, 0, 2, 0, [], True))
