"""`Arguments`: options of the launcher, followed by a program with its own arguments."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

#: words with which a program begins; after the first two Python runs a module or code
_LAST = ("-m", "-c", "-", "--")


class Arguments(argparse.ArgumentParser):
    """A parser for a section of the command line. No option can be abbreviated.

    `parse_args` stops at the first word that is neither an option nor the value of an option. The parser stores the
    remaining words in the namespace as `command`, which begins with -m or -c if Python is to run a module or code.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)

    def parse_args(self, args: Sequence[str], namespace: Any = None) -> Any:  # type: ignore[override]
        end = self._end_of_options(args)
        found = super().parse_args(args[:end], namespace)
        command = [*args[end:]]
        if command[:1] == ["--"]:
            del command[0]
        found.command = command
        return found

    def _end_of_options(self, words: Sequence[str]) -> int:
        """Return the index of the first word of the program."""
        index = 0
        while index < len(words):
            word = words[index]
            if not word.startswith("-") or word in _LAST:
                break
            index += 1
            action = self._option_string_actions.get(word)
            if action is None:
                continue  # an option with an attached value, or an unknown option
            if action.nargs == argparse.OPTIONAL:
                index += words[index : index + 1] != [] and not words[index].startswith("-")
            else:
                index += 1 if action.nargs is None else int(action.nargs)
        return min(index, len(words))

    def _get_option_tuples(self, option_string: str) -> list[Any]:
        """Return the short option at the start of a word such as -n4. Python would take -p for -ppn, too."""
        short = option_string[:2]
        return [found for found in super()._get_option_tuples(option_string) if found[1] == short not in _LAST]
