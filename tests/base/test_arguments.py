"""Checks of arguments: what they take, and that they name what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aiompi.base import arguments
from support.cases import cases


def test_integers_of_any_kind() -> None:
    assert arguments.integer(np.int16(3), "n") == 3
    assert type(arguments.integer(True, "n")) is int
    assert arguments.integers(np.arange(3), "ranks") == (0, 1, 2)
    assert arguments.integers((rank for rank in (5, 4)), "ranks") == (5, 4)
    assert arguments.integers((), "ranks") == ()


@cases(
    ("value", "text"),
    [
        (3, "ranks is 3: expected a sequence of integers, such as a list"),
        ("12", "ranks is '12': expected a sequence of integers, such as a list"),
        ([1, 2.5], r"ranks\[1\] is 2.5: expected an integer"),
        ([[1]], r"ranks\[0\] is \[1\]: expected an integer"),
    ],
)
def test_what_is_no_sequence_of_integers(value: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        arguments.integers(value, "ranks")


def test_objects_of_a_kind() -> None:
    assert arguments.text("x", "name") == "x"
    assert arguments.instance(1, int, "n", "an int") == 1
    with pytest.raises(TypeError, match="name is b'x': expected a string"):
        arguments.text(b"x", "name")
