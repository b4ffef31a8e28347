"""Control words: none has two meanings, and each is on the side of the end that writes it."""

import re

import pytest

from aiompi.transport.shared_memory import cma, ring, words

NUMBERS = {name: value for name, value in vars(words).items() if name.isupper() and isinstance(value, int)}
NUMBERS.pop("CONTROL_BYTES")
#: name of each word -> who writes it, as the tables say that explain what it means
TABLED = [
    (name, writer)
    for module in (ring, cma)
    for name, writer in re.findall(r"^\| ([A-Z_]+) +\| the (\w+) +\|", module.__doc__ or "", re.MULTILINE)
]


def test_each_word_has_a_number_and_one_meaning() -> None:
    assert len(set(NUMBERS.values())) == len(NUMBERS)
    assert sorted(name for name, _ in TABLED) == sorted(NUMBERS)


@pytest.mark.parametrize(("name", "writer"), TABLED)
def test_each_word_is_with_those_of_its_writer(name: str, writer: str) -> None:
    assert (
        NUMBERS[name]
        in {
            "writer": words.WRITERS,
            "sender": words.WRITERS,
            "reader": words.READERS,
            "receiver": words.READERS,
        }[writer]
    )


def test_words_of_both_ends_lie_in_cache_lines_of_their_own() -> None:
    assert 8 * words.READERS.start % ring.ALIGN == 0
    assert words.CONTROL_BYTES % ring.ALIGN == 0
