"""Slurm's lists of nodes."""

from __future__ import annotations

import pytest

from aiompi.errors import InvalidArgumentError
from aiompi.job.bootstrap.nodelist import expand
from support.cases import cases


@cases(
    ("text", "names"),
    [
        ("", []),
        ("node1", ["node1"]),
        ("a,b-1,c.d", ["a", "b-1", "c.d"]),
        ("a[1-3]", ["a1", "a2", "a3"]),
        ("a[08-11,2],b", ["a08", "a09", "a10", "a11", "a2", "b"]),
        ("rack[0-1]-node[7,9]x", ["rack0-node7x", "rack0-node9x", "rack1-node7x", "rack1-node9x"]),
        ("a[3-1]", []),
    ],
)
def test_expand(text: str, names: list[str]) -> None:
    assert expand(text) == names


@cases("text", ["a[1-", "a]", "a[x]", "a[]", "a[1-2-3]", "a[1-99999999]", "a[0-9999]b[0-9999]"])
def test_what_is_no_list(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"list of hosts|more than"):
        expand(text)
