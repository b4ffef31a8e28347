"""`aiompi-launch --as-mpiexec COMMAND`: runs COMMAND with an `mpiexec` on PATH that takes MPICH's options.

The folder `shims`, which comes first on the PATH of COMMAND, holds `mpiexec` and `mpirun`. They run this module, which
translates their options and calls `aiompi-launch`.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from typing import Final

from aiompi_launcher import cli
from aiompi_launcher.hosts.hostlist import is_this_machine

_EXIT_USAGE: Final = 2

USAGE: Final = """\
usage: mpiexec [options] [-n N] PROGRAM [ARGUMENT ...] [: [-n N] PROGRAM [ARGUMENT ...]] ...

The mpiexec of aiompi, with the options of MPICH (HYDRA):
  -n N, -np N                   number of ranks
  -env NAME VALUE               set a variable in this section
  -genv NAME VALUE              set a variable in all sections
  -envall, -genvall             pass on the environment, as is always done
  -envlist NAMES, -genvlist NAMES
                                the same for some variables
  -host NAMES, -hosts NAMES     hosts for all sections, with commas: NAME[:SLOTS]
  -f FILE, -hostfile FILE, -machinefile FILE
                                the same from a file, one host a line
  -ppn N, -perhost N            ranks of each host
  -usize N                      number of processes that there is room for (UNIVERSE_SIZE)
  -wdir DIR                     working directory
  -l, -prepend-rank             prefix lines with the rank
  -V, -version, -h, -help
"""


class UsageError(Exception):
    """A command line that cannot be translated."""


def translate(argv: Sequence[str]) -> list[str]:
    """Translate the arguments of MPICH's mpiexec into those of aiompi-launch.

    Raises:
        UsageError: an option is unknown or lacks its value, or sections name different hosts.
    """
    parser = _Parser(argv)
    sections = []
    while (section := parser.section()) is not None:
        sections.append(section)
    placed = [*parser.hosts, *(parser.ppn if parser.hosts else []), *parser.universe]
    command = [*(["--tag-output"] if parser.tags else []), *placed]
    for number, section in enumerate(sections or [[]]):
        command += [*([":"] if number else []), *parser.everywhere, *section]
    return command


class _Parser:
    """Parses a command line section by section, and collects the options of the whole job and of all sections."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._words = iter(argv)
        self.tags = False
        self.hosts: list[str] = []
        self.ppn: list[str] = []
        self.universe: list[str] = []
        self.everywhere: list[str] = []

    def section(self) -> list[str] | None:
        """Translate the next section; return None behind the last one."""
        section: list[str] | None = None
        for word in self._words:
            section = section or []
            if not word.startswith("-"):
                return [*section, "--", word, *itertools.takewhile(lambda word: word != ":", self._words)]
            section += self._option(word, word.removeprefix("-").removeprefix("-"))
        return section

    def _option(self, word: str, name: str) -> list[str]:
        match name:
            case "n" | "np":
                return ["-n", self._value(word)]
            case "wdir":
                return ["--wdir", self._value(word)]
            case "env":
                return ["--env", f"{self._value(word)}={self._value(word)}"]
            case "genv":
                self.everywhere += ["--env", f"{self._value(word)}={self._value(word)}"]
            case "l" | "prepend-rank":
                self.tags = True
            case "host" | "hosts":
                names = self._value(word)
                self._place(word, ["--hosts", names], names.split(","))
            case "f" | "hostfile" | "machinefile":
                file = self._value(word)
                self._place(word, ["--hostfile", file], _hosts_in(word, file))
            case "usize":
                size = self._value(word)
                self.universe = [] if size == "SYSTEM" else ["--universe-size", size]
            case "ppn" | "perhost":
                self.ppn = ["--ppn", self._value(word)]
            case "envlist" | "genvlist":
                self._value(word)
            case "envall" | "genvall":
                pass
            case _:
                raise UsageError(f"unrecognized argument {name}")  # libEnsemble recognises MPICH by these words
        return []

    def _place(self, option: str, words: list[str], names: Sequence[str]) -> None:
        """Start ranks on these hosts, unless all are names of this machine."""
        if not all(is_this_machine(name) or is_this_machine(name.rpartition(":")[0]) for name in names):
            if self.hosts and self.hosts != words:
                raise UsageError(f"{option}: all sections run on the same hosts; name these once")
            self.hosts = words

    def _value(self, option: str) -> str:
        value = next(self._words, None)
        if value is None:
            raise UsageError(f"{option} needs a value")
        return value


def _hosts_in(option: str, path: str) -> list[str]:
    """Return the hosts in a file. Each line has `NAME[:RANKS] [ATTRIBUTE ...]` or a comment."""
    try:
        with open(path) as file:
            return [line.split()[0] for line in file if line.partition("#")[0].strip()]
    except OSError as error:
        raise UsageError(f"{option} {path}: {error.strerror}") from None


def main() -> int:
    """Entry point of the shims; return the exit code."""
    argv = sys.argv[1:]
    if argv and argv[0].lstrip("-") in ("h", "help"):
        print(USAGE, end="")
        return 0
    if argv and argv[0].lstrip("-") in ("V", "version"):
        from importlib import metadata  # for this option only

        print(f"aiompi {metadata.version('aiompi')}: mpiexec with the options of MPICH (HYDRA)")
        return 0
    try:
        sys.argv[1:] = translate(argv)
        return cli.main()
    except UsageError as error:
        print(f"mpiexec: {error}; `mpiexec -help` lists what aiompi knows", file=sys.stderr)
        return _EXIT_USAGE


if __name__ == "__main__":
    sys.exit(main())
