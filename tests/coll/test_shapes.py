"""Trees, and ranks reduced to a power of two: the position of each rank."""

from __future__ import annotations

from aiompi.coll.algorithms.shapes import Pof2, Tree
from support.cases import cases


@cases("total", range(1, 18))
def test_every_rank_of_a_tree_has_one_parent_and_the_ranks_that_follow_it_below(total):
    for size in range(1, total + 1):
        for root in (0, total // 2, total - 1):
            trees = [Tree(rank, total, root, size) for rank in range(total)]
            members = {rank: tree for rank, tree in enumerate(trees) if tree.relative < size}
            assert members[root].span == size
            parents = {}
            for rank, tree in members.items():
                following = 1
                for child, distance, span in sorted(tree.children(), key=lambda entry: entry[1]):
                    assert distance == following
                    assert members[child].relative == tree.relative + distance
                    assert members[child].span == span
                    assert members[child].parent == rank
                    assert child not in parents
                    parents[child] = rank
                    following += span
                assert following == tree.span
            assert parents.keys() == members.keys() - {root}


@cases("size", range(1, 18))
def test_a_fold_leaves_a_power_of_two_in_the_order_of_the_ranks(size):
    for root in range(size):
        positions = [Pof2(rank, size, root) for rank in range(size)]
        left = [rank for rank, pof2 in enumerate(positions) if pof2.position is not None]
        power = positions[0].power
        assert power <= size < 2 * power
        assert [positions[rank].position for rank in left] == list(range(power))
        assert [positions[0].rank(position) for position in range(power)] == left
        assert root in left
        for rank, pof2 in enumerate(positions):
            if pof2.partner is not None:
                assert positions[pof2.partner].partner == rank
                assert (pof2.position is None) != (positions[pof2.partner].position is None)
        firsts = [positions[0].first(position) for position in range(power + 1)]
        assert firsts[-1] == size
        assert all(first <= rank < after for first, rank, after in zip(firsts, left, firsts[1:], strict=False))
