"""The registry lists the algorithms in the modules, and their docstrings have all that they must."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re

import pytest

from aiompi.coll import algorithms
from aiompi.coll.registry import COLLECTIVES
from aiompi.errors import InvalidArgumentError
from support.cases import cases

ALGORITHMS = [each.run for collective in COLLECTIVES.values() for each in collective.algorithms.values()]


def test_every_collective_is_a_module():
    modules = {module.name for module in pkgutil.iter_modules(algorithms.__path__)}
    assert modules - {"clients", "impi", "intercomm", "neighborhood", "shapes"} == set(COLLECTIVES)


@cases("name", COLLECTIVES)
def test_every_algorithm_of_the_module_is_listed(name):
    module = importlib.import_module(f"{algorithms.__name__}.{name}")
    collective = COLLECTIVES[name]
    assert collective.name == name
    coroutines = {
        name: function
        for name, function in vars(module).items()
        if inspect.iscoroutinefunction(function) and function.__module__ == module.__name__
    }
    drawn = {name: function for name, function in coroutines.items() if "Steps:" in (function.__doc__ or "")}
    assert drawn == {name: algorithm.run for name, algorithm in collective.algorithms.items()}


@cases("run", ALGORITHMS)
def test_an_algorithm_is_a_documented_coroutine_of_a_channel(run):
    assert inspect.iscoroutinefunction(run)
    assert next(iter(inspect.signature(run).parameters)) == "channel"
    assert "section 4." in (inspect.getmodule(run).__doc__ or "")
    text = " ".join(run.__doc__.split())
    for promise in ("Steps: ", "[Pp]er rank", "Any number of ranks|If n is not p", "(Five|Seven) ranks"):
        assert re.search(promise, text), promise


@cases("name", COLLECTIVES)
def test_what_runs_over_clients_is_documented_with_its_messages(name):
    for algorithm in COLLECTIVES[name].over_clients:
        assert inspect.iscoroutinefunction(algorithm.run)
        assert next(iter(inspect.signature(algorithm.run).parameters)) == "channel"
        assert "IMPI 0.0, section" in (inspect.getmodule(algorithm.run).__doc__ or "")
        text = " ".join((algorithm.run.__doc__ or "").split())
        assert re.search("Between clients|Reduce (the whole vector )?to rank 0", text)
        assert algorithm.order_safe is ("not order-safe" not in text.lower())


def test_unknown_algorithm_is_refused_with_the_known_ones():
    with pytest.raises(InvalidArgumentError, match="bcast has no algorithm 'magic'; it has binomial"):
        COLLECTIVES["bcast"].algorithm("magic")
