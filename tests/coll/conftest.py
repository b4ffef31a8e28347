"""Fixtures of the tests of collectives: worlds without an event loop, and a codec that counts."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from aiompi.wire.frame import Payload
from coll.wires import World


class CountingCodec:
    """A codec that counts what it does."""

    def __init__(self) -> None:
        self.dumped = 0
        self.loaded = 0

    def dumps(self, obj: Any) -> tuple[Payload, int]:
        """Return a message in two pieces, like those of objects with arrays."""
        self.dumped += 1
        data = pickle.dumps(obj)
        return (data[:3], memoryview(data)[3:]), len(data)

    def loads(self, data: memoryview) -> Any:
        assert not data.readonly, "arrays in the object could not be written to"
        self.loaded += 1
        return pickle.loads(data)


@pytest.fixture(scope="session")
def world() -> Callable[..., World]:
    """Function that makes a World; see its arguments."""
    return World


@pytest.fixture(scope="session")
def new_codec() -> Callable[[], CountingCodec]:
    """Function that makes a codec, for tests that run many times."""
    return CountingCodec


@pytest.fixture
def codec() -> CountingCodec:
    return CountingCodec()
