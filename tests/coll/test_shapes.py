"""Trees, and ranks reduced to a power of two: the position of each rank."""

from __future__ import annotations

import pytest

from aiompi.coll.pof2 import Pof2
from aiompi.coll.tree import Tree


@pytest.mark.parametrize("total", range(1, 18))
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


@pytest.mark.parametrize("size", range(1, 18))
def test_a_fold_leaves_a_power_of_two_in_the_order_of_the_ranks(size):
    for root in range(size):
        folds = [Pof2(rank, size, root) for rank in range(size)]
        left = [rank for rank, fold in enumerate(folds) if fold.position is not None]
        power = folds[0].power
        assert power <= size < 2 * power
        assert [folds[rank].position for rank in left] == list(range(power))
        assert [folds[0].rank(position) for position in range(power)] == left
        assert root in left
        for rank, fold in enumerate(folds):
            if fold.partner is not None:
                assert folds[fold.partner].partner == rank
                assert (fold.position is None) != (folds[fold.partner].position is None)
        firsts = [folds[0].first(position) for position in range(power + 1)]
        assert firsts[-1] == size
        assert all(first <= rank < after for first, rank, after in zip(firsts, left, firsts[1:], strict=False))
