"""The hosts of a job, which the user or Slurm names, and the host of each rank."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from aiompi.errors import InvalidArgumentError

BY_SLOT: Final = "slot"
BY_NODE: Final = "node"
#: patterns that a host name must not match, because ssh or a shell would misread it
_UNSAFE: Final = re.compile(r"^-|[^\w.@:%-]")
#: words of Open MPI's hostfiles, with an underscore or a hyphen
_SLOTS: Final = ("slots", "cpu", "count")
_MOST_SLOTS: Final = (*(f"max_{word}" for word in _SLOTS), *(f"{word}_max" for word in _SLOTS))
_USER: Final = ("user", "username", "user_name")
#: one item of a list of hosts: a host with its slots; brackets may contain commas
_PART: Final = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\]?|\])+")
#: an IPv6 address in brackets
_BRACKETED: Final = re.compile(r"(.*@)?\[([\d.:%\w]*:[\d.:%\w]*)\]")
_REPEATED: Final = re.compile(r"(\d+)(?:\(x(\d+)\))?")


class Host(NamedTuple):
    """A host.

    Attributes:
        name: for ssh or srun; may be `USER@NAME` for ssh.
        slots: number of ranks for which the host has room.
    """

    name: str
    slots: int = 1


def parse_hosts(text: str) -> list[Host]:
    """Return the hosts of `--hosts NAME[:SLOTS],...`. A name may stand for several, as in `node[1-3,7]`.

    Raises:
        InvalidArgumentError: a name or a number is wrong, or no host is named.
    """
    hosts = _merged(host for part in _PART.findall(text) for host in _hosts(part, part))
    if not hosts:
        raise InvalidArgumentError(f"--hosts {text!r} names no host")
    return hosts


def read_hostfile(path: str) -> list[Host]:
    """Return the hosts in a file.

    A line has `NAME[:SLOTS] [user=USER]`, as for MPICH, or `NAME [slots=SLOTS] [max_slots=N]`, as for Open MPI. `#`
    begins a comment. A host that is named twice has the slots of both lines. MPICH's `binding` and `ifhn` are ignored.

    Raises:
        OSError: the file cannot be read.
        InvalidArgumentError: a line is wrong.
    """
    with open(path, encoding="utf8", errors="surrogateescape") as file:  # comments may have another encoding
        lines = [re.sub(r"\s*=\s*", "=", line.partition("#")[0]).split() for line in file]
    found = (_line(words, f"{path}, line {number}") for number, words in enumerate(lines, 1) if words)
    hosts = _merged(itertools.chain.from_iterable(found))
    if not hosts:
        raise InvalidArgumentError(f"{path} names no host")
    return hosts


def _line(words: Sequence[str], where: str) -> list[Host]:
    hosts = _hosts(words[0], where)
    for word in words[1:]:
        name, _, value = word.partition("=")
        name = name.replace("-", "_")
        if name in _SLOTS and value.isdecimal():
            hosts = [host._replace(slots=int(value)) for host in hosts]
        elif name in _USER and value and not _UNSAFE.search(value):
            hosts = [host._replace(name=f"{value}@{host.name}") for host in hosts]
        elif name == "port":
            raise InvalidArgumentError(f"{where}: {word!r}: name ports in the configuration of ssh, or by --starter")
        elif name not in ("binding", "ifhn") and not (name in _MOST_SLOTS and value.isdecimal()):
            raise InvalidArgumentError(f"{where}: {word!r} is none of slots=N, max_slots=N and user=NAME")
    return hosts


def _hosts(text: str, where: str) -> list[Host]:
    name, colon, slots = text.rpartition(":")
    if not colon or (name.count(":") and not name.endswith("]")) or "]" in slots:  # no number, or an IPv6 address
        name, slots = text, "1"
    if not slots.isdecimal() or not int(slots):
        raise InvalidArgumentError(f"{where}: {slots!r} is no number of slots; expected NAME:SLOTS")
    address = _BRACKETED.fullmatch(name)
    names = [f"{address[1] or ''}{address[2]}"] if address else _expand(name) if "[" in name else [name]
    for each in names or [name]:
        if not each or _UNSAFE.search(each):
            raise InvalidArgumentError(f"{where}: {each!r} cannot be the name of a host")
    return [Host(each, int(slots)) for each in names]


def _merged(hosts: Iterable[Host]) -> list[Host]:
    slots: dict[str, int] = {}
    for host in hosts:
        slots[host.name] = slots.get(host.name, 0) + host.slots
    return [Host(*item) for item in slots.items()]


def slurm_allocation(environ: Mapping[str, str] = os.environ) -> list[Host]:
    """Return the hosts of the Slurm allocation of this process; no hosts if there is no allocation.

    A host has one slot for each task requested on it or, if the job sets no number of tasks, for each CPU allocated on
    it. In a job step of several tasks no hosts are returned, because these tasks share the allocation.
    """
    names = environ.get("SLURM_JOB_NODELIST", "")
    if not names or int(environ.get("SLURM_STEP_NUM_TASKS", "1")) > 1:
        return []
    tasks = "SLURM_NTASKS" in environ and environ.get("SLURM_TASKS_PER_NODE")
    slots = _numbers(tasks or environ.get("SLURM_JOB_CPUS_PER_NODE", ""))
    return [Host(*pair) for pair in zip(_expand(names), itertools.chain(slots, itertools.repeat(1)), strict=False)]


def _expand(names: str) -> list[str]:
    from aiompi.job.bootstrap.nodelist import expand  # seldom needed

    return expand(names)


def _numbers(text: str) -> Iterator[int]:
    """Yield the numbers of `2(x3),1`: 2, 2, 2 and 1."""
    for number, times in _REPEATED.findall(text):
        yield from itertools.repeat(int(number), int(times or 1))


def is_this_machine(name: str) -> bool:
    """Return True for a name or an address of this machine."""
    import socket  # seldom needed, and much to import

    from aiompi.net import interfaces

    own = socket.gethostname()
    return name in ("localhost", own, own.partition(".")[0]) or name in (pair[1] for pair in interfaces.own_addresses())


def place(hosts: Sequence[Host], size: int, by: str, ppn: int | None = None) -> list[list[int]]:
    """Return the ranks of each host.

    Args:
        hosts: the hosts.
        size: number of ranks. If there are more ranks than slots, the slots are filled again from the first host on.
        by: BY_SLOT to fill a host before the next, BY_NODE to give each host with a free slot one rank in turn.
        ppn: number of slots of every host, in place of the numbers in `hosts`.
    """
    slots = [ppn or host.slots for host in hosts]
    ranks: list[list[int]] = [[] for _ in hosts]
    for rank, host in zip(range(size), itertools.cycle(_slots(slots, by)), strict=False):
        ranks[host].append(rank)
    return ranks


def _slots(slots: Sequence[int], by: str) -> list[int]:
    """Return the host of each slot, in the order in which slots are filled."""
    if by == BY_SLOT:
        return [host for host, count in enumerate(slots) for _ in range(count)]
    return [host for turn in range(max(slots)) for host, count in enumerate(slots) if turn < count]
