"""Collectives on several hosts in two levels, beside the algorithms that would be chosen if all ranks were alike."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from aiompi.bench import namespaces
from aiompi.bench.contender import Conversation, conversations
from aiompi.bench.samples import Side, call_time, calls_within, slowest
from aiompi.bench.targets.family import Family, Options, compare
from aiompi.bench.targets.figure import Figure, Goal
from aiompi.coll.registry import COLLECTIVES
from aiompi.coll.select import Case, preferred

HOSTS: Final = 3
PER_HOST: Final = 4
#: bytes of one rank's block, or of the vector -> text
SIZES: Final = {8: "8 B", 64 * 2**10: "64 KiB", 2**20: "1 MiB"}
NAMES: Final = [name for name, each in COLLECTIVES.items() if "two_level" in each.algorithms]
#: text -> rate of the network, encryption, and how ranks are placed on the hosts
STATES: Final = {"": ("", "off", "slot"), "1 Gbit/s, ": ("1gbit", "off", "slot"), "TLS, by node, ": ("", "on", "node")}

#: of what the tuning data choose; 1 but for noise
_GOAL: Final = Goal("ratio", "at most", 1.1)
_TURN: Final = 0.1
_MOST_CALLS: Final = 50


def figures(options: Options) -> Iterator[Figure]:
    """Compare in each state; the rate is limited between namespaces only."""
    for prefix, (rate, tls, by) in STATES.items():
        if rate and options.hosts:
            continue
        with namespaces.several(HOSTS, options.hosts, rate) as words:
            job = namespaces.job((*words, "--map-by", by), PER_HOST, f"AIOMPI_TLS={tls}")
            with conversations(job, processes=HOSTS * PER_HOST) as (ranks,):
                for name in NAMES:
                    for nbytes in SIZES if name != "barrier" else [0]:
                        yield _figure(ranks, name, nbytes, prefix, options)


def _figure(ranks: Conversation, name: str, nbytes: int, prefix: str, options: Options) -> Figure:
    chosen, flat = (
        preferred(COLLECTIVES[name], Case(HOSTS * PER_HOST, nbytes, hosts=hosts)) for hosts in (True, False)
    )
    work = {"work": "collective_by", "name": name, "nbytes": nbytes}
    works = [{**work, "algorithm": algorithm} for algorithm in ("two_level", flat)]
    calls = 1
    if not options.quick:
        calls = calls_within(_TURN, max(slowest(ranks.ask({**each, "calls": 1})) for each in works), _MOST_CALLS)
    ours, floor = (Side(ranks, {**each, "calls": calls}, call_time) for each in works)
    goal = _GOAL if chosen == "two_level" else None
    size = f" {SIZES[nbytes]}" if nbytes else ""
    return compare(f"{prefix}{name}{size}, {flat}", "us", options.repeat, ours, floor, goal)


FAMILY: Final = Family(
    "collectives on three hosts",
    figures,
    beside="flat",
    note="""\
Algorithms that work within hosts and between them (two_level) beside the one that is named, which is chosen where
nothing is known of hosts. What is chosen with hosts has a target. Three hosts (--hosts) with four ranks each, or three
namespaces, which need root. Only for these there is a state with a limited rate. By node: ranks next to each other are
on different hosts.""",
)
