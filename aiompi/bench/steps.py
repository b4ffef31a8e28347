"""`python -m aiompi.bench steps`: where the time of a message between two ranks of this machine goes.

Two ranks of the blocking face run `measure.steps`, which times each function on the path of a message. This module
prints the results.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator, Sequence
from typing import Any, Final

from aiompi.bench import arguments, numerals
from aiompi.bench.contender import BLOCKING, conversations
from aiompi.bench.machine import idle_cores
from aiompi.bench.measure.payloads import ARRAY
from aiompi.bench.measure.steps import Step
from aiompi.bench.results import Results, show

_BLOCKS: Final = 5
_ITERATIONS: Final = 100_000
_QUICK: Final = 20
#: bytes of messages in one such number of round trips: longer ones are exchanged less often
_BYTES: Final = 4 * 2**30
_OBJECTS: Final = ("dict", "array")
_WIDTH: Final = 56

_EPILOG: Final = """\
A function is listed where it is first called, by what it takes itself, with all that it calls in C and in other
libraries, per message; one that calls nothing is not told from its caller (-). A rank that receives waits for the other
one: that is time of the driver, and of the link that it asks. For some seconds each rank looks 2,000 times a second
what is just running: what takes 0.1 us is known to 0.03. Settings of aiompi hold as always (AIOMPI_SPIN=0).
"""


def main(argv: Sequence[str]) -> None:
    """Entry point of `python -m aiompi.bench steps`.

    Raises:
        BenchError: something could not be measured or written.
        BrokenPipeError: nothing reads the output any more.
    """
    chosen = _parser().parse_args(argv)
    results = Results(chosen.json, quick=chosen.quick, awake=chosen.awake)
    show(results.head)
    measured: list[dict[str, Any]] = []
    works = [*_works(chosen)]
    with idle_cores(chosen.awake), conversations(BLOCKING) as (ranks,):
        for work in works:
            measured.append({**work, "ranks": ranks.ask({"work": "steps", **work})})
            show("\n".join(_table(measured[-1])))
            more = len(measured) < len(works)
            results.save(not more, more=more, steps=measured)


def _works(chosen: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for name in chosen.objects:
        yield {"payload": name, "nbytes": ARRAY, **_often(ARRAY if name == "array" else 0, chosen.quick)}
    for nbytes in chosen.sizes or ([] if chosen.objects else [8]):
        yield {"payload": "", "nbytes": nbytes, **_often(nbytes, chosen.quick)}


def _often(nbytes: int, quick: bool) -> dict[str, int]:
    iterations = _QUICK if quick else max(_QUICK, min(_ITERATIONS, _BYTES // max(nbytes, 1)))
    return {"iterations": iterations, "blocks": _BLOCKS}


def _table(measured: dict[str, Any]) -> Iterator[str]:
    """The steps of rank 0."""
    rank = measured["ranks"][0]
    name = measured["payload"] or numerals.size(measured["nbytes"])
    yield f"\n{name}: {numerals.number(statistics.median(rank['seconds']) / 2 * 1e6)} us one way"
    for half in ("send", "recv"):
        yield f"\n{half:{_WIDTH}}   calls      us"
        yield from map(_line, rank[half])


def _line(step: Step) -> str:
    depth, name, where, calls, seconds = step
    own = f"{seconds * 1e6:.2f}" if seconds else "-"
    return f"{'  ' * depth + name:{_WIDTH}}{calls:8.3g}{own:>8}  {where}"


def _parser() -> argparse.ArgumentParser:
    parser = arguments.parser("steps", "Show where the time of a message between two ranks goes.", _EPILOG)
    add = parser.add_argument
    add("--sizes", type=arguments.sizes, metavar="BYTES,...", help="of messages from memory (8)")
    add(
        "--objects",
        type=arguments.list_of(arguments.name(_OBJECTS)),
        default=[],
        metavar="NAME,...",
        help="objects to send: dict, a small one, and array, a dict with 1 MiB",
    )
    arguments.add_results(parser)
    arguments.add_awake(parser)
    return parser
