"""Selection: the setting first, then the first rule that applies."""

from __future__ import annotations

import json

import pytest

from aiompi import settings
from aiompi.coll import buffers, select
from aiompi.coll.registry import COLLECTIVES, Algorithm, Collective
from aiompi.coll.select import Case
from aiompi.coll.signature import note_of
from aiompi.comm import derive
from aiompi.engine import LITTLE_ROOM, MOST_IN_ROUNDS, ROOM
from aiompi.errors import InternalError, InvalidArgumentError
from support.cases import cases


async def plain(channel):
    """Serves every call."""


async def quick(channel):
    """Serves operations that commute."""


async def cutting(channel):
    """Serves buffers."""


async def even(channel):
    """Serves blocks of equal length."""


FAKE = Collective(
    "fake",
    {
        "plain": Algorithm(plain),
        "quick": Algorithm(quick, order_safe=False),
        "cutting": Algorithm(cutting, any_form=False),
        "even": Algorithm(even, any_lengths=False),
    },
)


@pytest.fixture
def choose(world, monkeypatch):
    """Chooses among the algorithms of FAKE by rules."""
    monkeypatch.setattr(select, "COLLECTIVES", {"fake": FAKE})

    def choose(rules, *, size=4, forced=None, homes=None, **call):
        parsed = select.parse(json.dumps({"rules": {"fake": rules}}))
        monkeypatch.setattr(select, "tuning", lambda: parsed)
        select.preferred.cache_clear()
        select.usual.cache_clear()
        comm = world(size, coll={"fake": forced} if forced else {}).comms[0]
        if homes is not None:
            comm.engine.shm_domains[:] = homes
            comm = derive(comm, comm.group, 100)
        return select.select(comm, FAKE, **call)

    return choose


PLAIN = {"algorithm": "plain"}


def test_first_rule_within_its_limits_wins(choose):
    rules = [
        {"algorithm": "quick", "max_ranks": 4, "max_bytes": 100},
        {"algorithm": "cutting", "max_bytes": 1000},
        PLAIN,
    ]
    assert choose(rules, size=4, nbytes=100) is quick
    assert choose(rules, size=5, nbytes=100) is cutting
    assert choose(rules, size=4, nbytes=101) is cutting
    assert choose(rules, size=4, nbytes=1001) is plain


def test_a_rule_may_be_for_powers_of_two(choose):
    rules = [{"algorithm": "quick", "power_of_two": True}, PLAIN]
    chosen = {size: choose(rules, size=size, nbytes=1) for size in range(1, 10)}
    assert [size for size, algorithm in chosen.items() if algorithm is quick] == [1, 2, 4, 8]


def test_blocks_of_all_ranks_together_may_be_limited(choose):
    rules = [{"algorithm": "quick", "max_total": 100}, PLAIN]
    assert choose(rules, size=4, nbytes=25) is quick
    assert choose(rules, size=4, nbytes=26) is plain
    assert choose(rules, size=5, nbytes=25) is plain
    assert choose(rules, size=4, nbytes=None) is plain


@pytest.mark.parametrize("size", [2, 9, 64, 1000])
@pytest.mark.parametrize("name", sorted(COLLECTIVES))
def test_short_blocks_go_through_slots_in_groups_of_any_size(name, size):
    for nbytes in (8, 32768 // size):
        assert select.preferred(COLLECTIVES[name], Case(size, nbytes, commute=False, shared_memory=True)) == "shm"
        assert select.preferred(COLLECTIVES[name], Case(size, nbytes, commute=False)) != "shm"


def test_where_no_slots_are_shared_the_next_rule_serves():
    alltoall = COLLECTIVES["alltoall"]
    for size, name in ((64, "bruck"), (4, "linear")):
        run = select.usual(alltoall, Case(size, 8, shared_memory=True))
        assert run.func is alltoall.algorithms["shm"].run
        assert run.keywords == {"otherwise": alltoall.algorithms[name].run}


def test_a_rule_may_be_for_ranks_that_share_memory(choose):
    rules = [{"algorithm": "quick", "shared_memory": True}, PLAIN]
    assert choose(rules, nbytes=1) is plain
    assert choose(rules, nbytes=1, homes=["here"] * 4) is quick
    assert choose(rules, nbytes=1, homes=["here", "here", "there", "here"]) is plain
    assert choose(rules, nbytes=1, homes=["here", None, "here", "here"]) is plain


def test_objects_are_not_selected_by_a_length_that_only_one_rank_knows(choose):
    assert choose([{"algorithm": "quick", "max_bytes": 10**9}, PLAIN], nbytes=None) is plain


def test_a_rule_may_be_for_objects(choose):
    rules = [{"algorithm": "quick", "objects": True}, PLAIN]
    assert choose(rules, nbytes=None) is quick
    assert choose(rules, nbytes=0) is plain


def test_algorithms_that_cut_serve_buffers_only(choose):
    rules = [{"algorithm": "cutting"}, PLAIN]
    assert choose(rules, nbytes=0) is cutting
    assert choose(rules, nbytes=None) is plain


def test_algorithms_that_change_the_order_serve_operations_that_commute_only(choose):
    rules = [{"algorithm": "quick"}, PLAIN]
    assert choose(rules, nbytes=8) is quick
    assert choose(rules, nbytes=8, commute=False) is plain


def test_the_setting_wins_where_it_can_serve(choose):
    assert choose([PLAIN], forced="quick", nbytes=8) is quick
    assert choose([PLAIN], forced="quick", nbytes=8, commute=False) is plain
    assert choose([PLAIN], forced="cutting", nbytes=None) is plain


def test_algorithms_for_equal_blocks_do_not_serve_others(choose):
    rules = [{"algorithm": "even"}, PLAIN]
    assert choose(rules, nbytes=8) is even
    assert choose(rules, nbytes=8, equal=False) is plain
    assert choose([PLAIN], forced="even", nbytes=8, equal=False) is plain


def test_the_argument_of_a_call_wins(choose):
    assert choose([PLAIN], forced="even", algorithm="quick", nbytes=8) is quick


@pytest.mark.parametrize(
    ("name", "call", "message"),
    [
        ("magic", {}, "fake has no algorithm 'magic'"),
        (
            "quick",
            {"nbytes": 8, "commute": False},
            "serves only operations that commute; .* takes cutting, even, plain",
        ),
        ("cutting", {}, "serves only buffers whose length all ranks know; .* takes even, plain, quick"),
        ("even", {"nbytes": 8, "equal": False}, "serves only blocks of equal length; .* takes cutting, plain, quick"),
    ],
)
def test_an_argument_that_cannot_serve_the_call_is_refused(name, call, message, choose):
    with pytest.raises(InvalidArgumentError, match=message):
        choose([PLAIN], algorithm=name, **call)


def test_rules_that_leave_a_call_without_algorithm_are_a_defect(choose):
    with pytest.raises(InternalError, match="fake"):
        choose([{"algorithm": "quick", "max_ranks": 1}])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"rules": {"magic": []}}', "no collective 'magic'; there are .*bcast"),
        ('{"rules": {"bcast": [{"algorithm": "magic"}]}}', "bcast has no algorithm 'magic'; it has .*binomial"),
        ('{"rules": {"bcast": [{"algorithm": "binomial", "bytes": 3}]}}', "tuning data of bcast: .*bytes"),
    ],
)
def test_tuning_data_must_name_what_there_is(text, message):
    with pytest.raises(InvalidArgumentError, match=message):
        select.parse(text)


@cases("name", COLLECTIVES)
def test_the_packaged_data_serve_every_call(name):
    last = select.tuning()[name][-1]
    algorithm = COLLECTIVES[name].algorithms[last.algorithm]
    assert last.max_ranks is None
    assert last.max_bytes is None
    assert not last.power_of_two
    assert not last.objects
    assert not last.shared_memory
    assert algorithm.order_safe
    assert algorithm.any_form or name == "reduce_scatter"
    assert algorithm.any_lengths


def test_the_environment_names_algorithms(world):
    loaded = settings.load({"AIOMPI_COLL": "bcast=binomial, reduce=binomial"})
    assert world(2, coll=loaded.coll).results(buffers.barrier) == [None, None]


@pytest.mark.parametrize(
    ("coll", "message"),
    [
        ({"bcast": "magic"}, r"AIOMPI_COLL.*bcast has no algorithm 'magic'; it has .*binomial"),
        ({"magic": "binomial"}, r"AIOMPI_COLL.*no collective 'magic'; there are .*alltoall.*scatter"),
    ],
)
def test_unknown_names_in_the_setting_are_reported_by_any_collective(coll, message, world):
    with pytest.raises(InvalidArgumentError, match=message):
        buffers.barrier(world(1, coll=coll).comms[0])


@pytest.mark.parametrize("size", [2, 3, 4, 8, 17, 33, 64, 5000])
@pytest.mark.parametrize("most", [ROOM, LITTLE_ROOM])
def test_the_core_calls_slots_itself_only_where_the_general_path_would_use_them_alike(size, most):
    """Some ranks may take one path, and the others the other one."""
    limits = select._direct_limits(size, most)
    for name, (collective, together) in select._DIRECT.items():
        limit = limits[note_of(name, None, None)]
        rules = select.tuning()[collective.name]
        ends = {most, most // size, limit, 2**30, *(each.max_bytes or (each.max_total or 0) // size for each in rules)}
        for nbytes in {length for end in ends for length in (end - 1, end, end + 1) if 0 <= length <= limit}:
            assert select.preferred(collective, select.Case(size, nbytes, shared_memory=True)) == "shm"
            if nbytes > (most // size if together else most):
                assert name in select._IN_ROUNDS
                assert most == ROOM
                assert size <= MOST_IN_ROUNDS
