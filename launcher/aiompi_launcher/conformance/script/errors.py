"""The errors in a script, and in an MPI call that the script makes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """A position in a script.

    Attributes:
        line: from 1.
        column: from 1, in characters.
    """

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


class ScriptError(Exception):
    """A script breaks the rules of the language; this tells nothing about the implementation under test (section 5.3).

    Attributes:
        place: where.
        problem: what.
    """

    def __init__(self, place: Place, problem: str) -> None:
        super().__init__(f"{place}: {problem}")
        self.place = place
        self.problem = problem


class MPIFailure(Exception):
    """An MPI call returned something else than MPI_SUCCESS.

    Attributes:
        name: the error class, such as `MPI_ERR_TRUNCATE`.
    """

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.name = name
