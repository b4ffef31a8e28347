"""Publications between workers beside Redis pub/sub."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from aiompi.bench.contender import Answer, Contender, aiompi_job, conversations, forms, redis_pair
from aiompi.bench.measure.turns import Work
from aiompi.bench.samples import Side, in_turns, one_way, slowest
from aiompi.bench.targets.figures import Family, Figure, Goal, Options

#: publications per block, and exchanges
PUBLICATIONS: Final = 4000
EXCHANGES: Final = 500
#: publications in a pipeline, as many as in `aiompi.bench.measure.redis`
WINDOW: Final = 100

_BLOCKS: Final = 3
_ONE_BY_ONE: Final = Goal("ratio", "at least", 10)
_PIPELINED: Final = Goal("ratio", "at least", 3)
_ASLEEP: Final = Goal("ratio", "at most", 0.33)
_AWAKE: Final = Goal("ratio", "at most", 0.1)


def figures(options: Options) -> Iterator[Figure]:
    """Compare publications of each form of aiompi with those through a server."""
    installed = forms()
    many = _work("publications", options.scaled(PUBLICATIONS))
    pipelines = _work("pipelined_publications", max(1, options.scaled(PUBLICATIONS) // WINDOW))
    exchanges = _work("answered_publications", options.scaled(EXCHANGES))
    with conversations(redis_pair(), *_jobs(installed)) as (redis, *ours):
        sides = [Side(each, many, _rate) for each in ours]
        for name, floor, goal in (
            ("one await each", Side(redis, many, _rate), _ONE_BY_ONE),
            (f"beside pipelines of {WINDOW}", Side(redis, pipelines, _rate_of_pipelines), _PIPELINED),
        ):
            yield from _beside(name, "1/s", installed, in_turns(options.repeat, *sides, floor), goal)
    spinning = {form: variables for form, variables in installed.items() if form == "native"}
    for name, among, spin, goal in (("asleep", installed, "0", _ASLEEP), ("awake", spinning, "500e-6", _AWAKE)):
        with conversations(redis_pair(), *_jobs(among, f"AIOMPI_SPIN={spin}")) as (redis, *ours):
            answered = Side(redis, exchanges, one_way)
            sides = [Side(each, exchanges, one_way) for each in ours]
            yield from _beside(f"one way, {name}", "us", among, in_turns(options.repeat, *sides, answered), goal)


def _jobs(installed: Mapping[str, tuple[str, ...]], *variables: str) -> list[Contender]:
    return [aiompi_job(2, *variables, *selected, face="native") for selected in installed.values()]


def _work(name: str, iterations: int) -> Work:
    return {"work": name, "iterations": iterations, "blocks": _BLOCKS}


def _rate(answer: Answer) -> float:
    """Return iterations a second, of the slower rank of each block."""
    return 1 / slowest(answer)


def _rate_of_pipelines(answer: Answer) -> float:
    return WINDOW * _rate(answer)


def _beside(
    name: str, unit: str, installed: Iterable[str], samples: Sequence[Sequence[float]], goal: Goal
) -> Iterator[Figure]:
    """Yield a figure for each form of the core. The last item of `samples` has the samples of Redis."""
    *everyones, floor = samples
    for form, ours in zip(installed, everyones, strict=True):
        yield Figure(f"{name}, {form}", unit, ours, floor, goal)


FAMILY: Final = Family(
    "publications beside Redis",
    figures,
    beside="Redis",
    note="""\
Texts of 100 characters from one process to another, by publish and subscribe: of each form of aiompi that is installed,
and of redis-py on uvloop and redis-server without persistence, over a Unix socket. Messages a second, and microseconds
one way: half of a publication and its answer. Ranks of the native form look for messages for 500 us before they sleep
(awake), or sleep at once. Each process has a core, and redis-server what it finds.""",
)
