"""`python_of` recognises commands that run a Python program with the launcher's own Python."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Final, NamedTuple

from aiompi_launcher.spec import Section

#: options without a value that have the same effect on forked ranks as on separate processes
_FLAGS: Final = frozenset("bBOqu")
#: options with a value that have the same effect on forked ranks as on separate processes
_WITH_VALUE: Final = ("-W", "-X")


class PythonProgram(NamedTuple):
    """A Python program.

    Attributes:
        command: the interpreter and its options.
        words: `-m`, `-c` or the program, and the arguments.
    """

    command: tuple[str, ...]
    words: tuple[str, ...]


def python_of(program: Section) -> PythonProgram | None:
    """Return the Python program of a section; None if it runs another kind of program, or another Python."""
    argv = program.argv
    if argv[0].endswith(".py"):
        return PythonProgram((sys.executable,), argv)
    at = 1
    while at < len(argv) and (argv[at][:2] in _WITH_VALUE or _is_flags(argv[at])):
        at += 2 if argv[at] in _WITH_VALUE else 1
    command, words = argv[:at], argv[at:]
    named = words[:1] in (("-m",), ("-c",)) and len(words) > 1
    if (not named and (not words or words[0].startswith("-"))) or any("importtime" in word for word in command):
        return None
    return PythonProgram(command, words) if _is_this_python(argv[0], program) else None


def _is_flags(word: str) -> bool:
    return word[0:1] == "-" and len(word) > 1 and _FLAGS.issuperset(word[1:])


def _is_this_python(name: str, program: Section) -> bool:
    """Return True for the interpreter of the launcher, in its virtual environment."""
    found = find(name, program.environ.get("PATH"))
    with contextlib.suppress(OSError):
        here = os.path.dirname(sys.executable)
        return found is not None and os.path.dirname(found) == here and os.path.samefile(found, sys.executable)
    return False


def find(name: str, path: str | None) -> str | None:
    """Return the executable of a command as `execvp` finds it; None if PATH does not have it."""
    if os.path.basename(name) != name:
        return name
    import shutil  # agents seldom need it

    return shutil.which(name, path=path)
