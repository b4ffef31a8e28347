"""Control words: each has one meaning, and lies in a cache line of the end that writes it."""

import re
from pathlib import Path

import pytest

import aiompi
from aiompi.transport.shared_memory import ring

#: of the modules of shared memory; a compiled module has no docstring
SOURCES = Path(aiompi.__file__).parent / "transport" / "shared_memory"
#: name of each word, and the end that writes it, from the tables that explain the words
TABLED = [
    (name, writer)
    for module in ("ring.py", "cma.py")
    for name, writer in re.findall(r"^\| ([A-Z_]+) +\| the (\w+) +\|", (SOURCES / module).read_text(), re.MULTILINE)
]
NUMBERS = {name: getattr(ring, name) for name, _ in TABLED}


def test_each_word_has_a_number_and_one_meaning() -> None:
    assert len(set(NUMBERS.values())) == len(NUMBERS)
    assert len(TABLED) == len(NUMBERS) > 10


@pytest.mark.parametrize(("name", "writer"), TABLED)
def test_each_word_is_with_those_of_its_writer(name: str, writer: str) -> None:
    assert (
        NUMBERS[name]
        in {
            "writer": ring.WRITERS,
            "sender": ring.WRITERS,
            "reader": ring.READERS,
            "receiver": ring.READERS,
        }[writer]
    )


def test_words_of_both_ends_lie_in_cache_lines_of_their_own() -> None:
    assert 8 * ring.READERS.start % ring.ALIGN == 0
    assert ring.CONTROL_BYTES % ring.ALIGN == 0
