"""The registry lists the algorithms in the folders, and their docstrings have all that they must."""

from __future__ import annotations

import inspect
import pkgutil
import re

import pytest

import aiompi.coll
from aiompi.coll.registry import COLLECTIVES
from aiompi.errors import InvalidArgumentError

ALGORITHMS = [
    pytest.param(algorithm.run, id=f"{collective.name}-{name}")
    for collective in COLLECTIVES.values()
    for name, algorithm in collective.algorithms.items()
]


def test_every_folder_is_a_collective():
    folders = {module.name for module in pkgutil.iter_modules(aiompi.coll.__path__) if module.ispkg}
    assert folders - {"buffers", "impi", "objects"} == set(COLLECTIVES)


@pytest.mark.parametrize("name", COLLECTIVES)
def test_every_file_is_an_algorithm(name):
    folder = f"{aiompi.coll.__path__[0]}/{name}"
    files = {module.name for module in pkgutil.iter_modules([folder])}
    collective = COLLECTIVES[name]
    assert collective.name == name
    assert files == set(collective.algorithms)
    for algorithm, entry in collective.algorithms.items():
        assert entry.run.__module__ == f"aiompi.coll.{name}.{algorithm}"
        assert entry.run.__name__ == algorithm


@pytest.mark.parametrize("run", ALGORITHMS)
def test_an_algorithm_is_a_documented_coroutine_of_a_channel(run):
    assert inspect.iscoroutinefunction(run)
    assert next(iter(inspect.signature(run).parameters)) == "channel"
    assert "section 4." in (inspect.getmodule(run).__doc__ or "")
    text = " ".join(run.__doc__.split())
    for promise in ("Steps: ", "[Pp]er rank", "Any number of ranks|Other sizes than", "(Five|Seven) ranks"):
        assert re.search(promise, text), promise


@pytest.mark.parametrize("name", COLLECTIVES)
def test_what_runs_over_clients_is_documented_with_its_messages(name):
    for algorithm in COLLECTIVES[name].over_clients:
        assert inspect.iscoroutinefunction(algorithm.run)
        assert next(iter(inspect.signature(algorithm.run).parameters)) == "channel"
        assert "IMPI 0.0, section" in (inspect.getmodule(algorithm.run).__doc__ or "")
        text = " ".join((algorithm.run.__doc__ or "").split())
        assert re.search("Between clients|Reduce (of everything )?to rank 0", text)
        assert algorithm.order_safe is ("not order-safe" not in text.lower())


def test_unknown_algorithm_is_refused_with_the_known_ones():
    with pytest.raises(InvalidArgumentError, match="bcast has no algorithm 'magic'; it has binomial"):
        COLLECTIVES["bcast"].algorithm("magic")
