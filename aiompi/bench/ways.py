"""`python -m aiompi.bench ways`: what each way of a message between two ranks of this machine is worth.

Two jobs take turns, one of them with a way switched off (`measure.without`). This module prints the ratios of times.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from aiompi.bench import arguments, numerals
from aiompi.bench.contender import LAUNCHER, Answer, Contender, Conversation, apart, bind, conversations, cores
from aiompi.bench.machine import idle_cores
from aiompi.bench.measure.without import WAYS, Way
from aiompi.bench.results import Results, show
from aiompi.bench.samples import Side, calls_within, in_turns, slowest

MEMORY: Final = ("again", "fresh", "cycling")
#: how ranks wait -> the setting for it
WAITING: Final = {"spin": "AIOMPI_SPIN=500e-6", "asleep": "AIOMPI_SPIN=0"}
#: how ranks are placed -> their number
PLACED: Final = {"apart": 2, "crowded": 4}
SIZES: Final = "1k,64k,512k,16m"

#: approximate seconds of a turn, maximum of its rounds, and rounds of the trial that finds how many fit into it
_TURN: Final = 0.02
_MOST_ROUNDS: Final = 300
_TRIAL: Final = 3
_BLOCKS: Final = 2
#: a way stays if it gains this much in a state, and loses no more than this in another
_GAIN: Final = 1.1
_LOSS: Final = 0.95
#: states whose turns are farther than this from their median do not count
_SPREAD: Final = 0.3
_WIDTH: Final = 40

_EPILOG: Final = """\
Two jobs take turns, and one of them lacks the way. A ratio above x1 says how much longer messages take without it. Each
ratio is the median of the turns, with the distance of the farthest turn; the last column is the geometric mean of all.
again: messages are sent from the same memory and received into the same other memory. fresh: they are written before
each send, which is not timed, and read after each receive, which is. cycling: they are in more memory than caches hold.
spin: ranks that wait look for messages for 500 us before they sleep. asleep: they sleep at once (AIOMPI_SPIN=0).
apart: two ranks, each on its own core. crowded: four ranks on two cores; the two ranks of a pair have different ones.
Collectives, whose calls begin after a barrier, are measured in the state again only.
A way earns its lines if it gains 10 % in a state and loses no more than 5 % in another. States whose turns are farther
than 30 % from their median say nothing of that.
All ways take two to three minutes. More sizes, and messages that cycle through memory, take proportionally longer.
"""


class State(NamedTuple):
    """How ranks wait, how they are placed, what they send, and how they use memory."""

    waiting: str
    placed: str
    payload: str
    memory: str


def main(argv: Sequence[str]) -> None:
    """Entry point of `python -m aiompi.bench ways`.

    Raises:
        BenchError: something could not be measured or written.
        BrokenPipeError: nothing reads the output any more.
    """
    chosen = _parser().parse_args(argv)
    results = Results(chosen.json, quick=chosen.quick, awake=chosen.awake)
    show(results.head)
    measured: list[dict[str, Any]] = []
    with idle_cores(chosen.awake):
        for name in chosen.ways or WAYS:
            rows: list[dict[str, Any]] = []
            for row in _rows(name, WAYS[name], chosen):
                if not rows:
                    sizes = "".join(f"{numerals.size(nbytes):>13}" for nbytes in row["ratios"])
                    show(f"\n{name}: {WAYS[name].about}\n{' ' * _WIDTH}{sizes}")
                rows.append(row)
                measured.append(row)
                show(_line(row))
                results.save(False, more=True, ways=measured)
            if rows:
                show(_verdict(rows))
    results.save(True, ways=measured)


def _rows(name: str, way: Way, chosen: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the measurements of a way, state by state."""
    shortest, longest = way.sizes
    sizes = [nbytes for nbytes in chosen.sizes if shortest <= nbytes <= longest]
    if not sizes:
        return
    for waiting, placed in itertools.product(chosen.waiting, chosen.placed):
        number = PLACED[placed]
        both = [_contender(number, WAITING[waiting]), _contender(number, WAITING[waiting], *way.variables, way=name)]
        with conversations(*both, processes=number) as jobs:
            if number > 2:
                bind(jobs, apart(cores(), number))
            for payload in way.payloads:
                exchanged = payload in ("buffer", "object")
                for memory in chosen.memory if exchanged else chosen.memory[:1]:
                    state = State(waiting, placed, payload, memory)
                    turns = {nbytes: _ratios(jobs, state, nbytes, chosen) for nbytes in sizes}
                    yield {"way": name, **state._asdict(), "ratios": turns}


def _contender(processes: int, *variables: str, way: str = "") -> Contender:
    module = ("-m", "aiompi.bench.measure.without", *([way] if way else []))
    command = ("env", *variables, *LAUNCHER, "-n", str(processes), *module)
    return Contender(f"without {way}" if way else "with all ways", command)


def _ratios(jobs: Sequence[Conversation], state: State, nbytes: int, chosen: argparse.Namespace) -> list[float]:
    """Return the time without the way divided by the time with it, for each turn."""
    if state.payload in ("buffer", "object"):
        work = {"work": "exchange", "payload": state.payload, "nbytes": nbytes, "memory": state.memory}
        work, count, most, value = {**work, "blocks": _BLOCKS}, "rounds", _TURN / _BLOCKS, _round_trip
    else:
        name = state.payload.removesuffix("_object")
        kind = {"work": "collective"} if name == state.payload else {"work": "collective_objects", "payload": "array"}
        work, count, most, value = {**kind, "name": name, "nbytes": nbytes}, "calls", _TURN, slowest
    number = _TRIAL
    if not chosen.quick:
        number = calls_within(most, max(Side(job, {**work, count: _TRIAL}, value)() for job in jobs), _MOST_ROUNDS)
    sides = [Side(job, {**work, count: max(number, 2)}, value) for job in jobs]
    base, without = in_turns(1 if chosen.quick else chosen.repeat, *sides)
    return [b / a for a, b in zip(base, without, strict=True)]


def _round_trip(answer: Answer) -> float:
    """Return the seconds of a round trip, the mean of all pairs, without the time in which ranks wrote messages."""
    half = len(answer) // 2
    pairs = []
    for lead, follow in zip(answer[:half], answer[half:], strict=True):
        blocks = [seconds - own - other for (seconds, own), (_, other) in zip(lead, follow, strict=True)]
        pairs.append(statistics.median(blocks))
    return float(statistics.mean(pairs))


def _mean(row: dict[str, Any]) -> float:
    """Return the geometric mean over all sizes."""
    return float(statistics.geometric_mean([statistics.median(turns) for turns in row["ratios"].values()]))


def _line(row: dict[str, Any]) -> str:
    cells = ""
    for turns in row["ratios"].values():
        cells += f"{f'x{statistics.median(turns):.2f}':>8}{f'±{_spread(turns):.0%}':>5}"
    state = ", ".join(row[part] for part in State._fields)
    return f"  {state:{_WIDTH - 2}}{cells}  x{_mean(row):.2f}"


def _spread(turns: list[float]) -> float:
    """Return the distance of the farthest turn from the median, as a part of the median."""
    ratio = statistics.median(turns)
    return max(abs(turn - ratio) for turn in turns) / ratio


def _verdict(rows: list[dict[str, Any]]) -> str:
    rows = [row for row in rows if max(map(_spread, row["ratios"].values())) <= _SPREAD]
    if not rows:
        return "  no verdict: the turns of each state differ by too much"
    best, worst = max(rows, key=_mean), min(rows, key=_mean)
    earns = _mean(best) >= _GAIN and _mean(worst) >= _LOSS
    states = [f"x{_mean(row):.2f} ({', '.join(row[part] for part in State._fields)})" for row in (best, worst)]
    return f"  {'earns its lines' if earns else 'does not earn its lines'}: at best {states[0]}, at worst {states[1]}"


def _parser() -> argparse.ArgumentParser:
    ways = ", ".join(WAYS)
    parser = arguments.parser("ways", "Show what each way of a message is worth.", f"{_EPILOG}\nways: {ways}\n")
    add = parser.add_argument
    add("ways", nargs="*", action=arguments.Once, metavar="way", type=arguments.name(WAYS), help="(all)")
    arguments.add_sizes(parser, SIZES)
    for option, values in {"memory": MEMORY, "waiting": tuple(WAITING), "placed": tuple(PLACED)}.items():
        known = arguments.list_of(arguments.name(values))
        usual = values[:2]
        text = f"of {','.join(values)} ({','.join(usual)})"
        add(f"--{option}", type=known, default=list(usual), metavar="STATE,...", help=text)
    arguments.add_turns(parser, 3)
    arguments.add_results(parser)
    arguments.add_awake(parser)
    return parser
