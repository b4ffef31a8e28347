"""The syntax tree of a script, the result of parsing."""

from __future__ import annotations

from dataclasses import dataclass

from aiompi_launcher.conformance.script.errors import Place
from aiompi_launcher.conformance.script.types import Type


@dataclass(frozen=True, slots=True, eq=False)
class Variable:
    """A declared variable.

    Attributes:
        length: elements; None: a scalar.
    """

    name: str
    type: Type
    length: int | None
    place: Place


@dataclass(frozen=True, slots=True)
class Number:
    value: int | float
    place: Place


@dataclass(frozen=True, slots=True)
class Text:
    value: str
    place: Place


@dataclass(frozen=True, slots=True)
class Constant:
    """A named constant whose value the MPI implementation gives.

    Attributes:
        kind: `int`, or that of a handle.
    """

    name: str
    kind: str
    place: Place


@dataclass(frozen=True, slots=True)
class Element:
    """A variable, or an element of it.

    Attributes:
        index: index of the element; None for a scalar, or for a whole array as an argument of a call.
    """

    variable: Variable
    index: Expression | None
    place: Place


@dataclass(frozen=True, slots=True)
class Unary:
    sign: str
    operand: Expression
    place: Place


@dataclass(frozen=True, slots=True)
class Binary:
    sign: str
    left: Expression
    right: Expression
    place: Place


Expression = Number | Text | Constant | Element | Unary | Binary


@dataclass(frozen=True, slots=True)
class Declare:
    variable: Variable
    place: Place


@dataclass(frozen=True, slots=True)
class Assign:
    target: Element
    value: Expression
    place: Place


@dataclass(frozen=True, slots=True)
class Call:
    """`target = name(arguments);`, or without target.

    Attributes:
        name: a key of the table of calls.
    """

    name: str
    arguments: tuple[Expression, ...]
    target: Element | None
    place: Place


@dataclass(frozen=True, slots=True)
class Block:
    statements: tuple[Statement, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class If:
    condition: Expression
    then: Statement
    otherwise: Statement | None
    place: Place


@dataclass(frozen=True, slots=True)
class Loop:
    """`while`, and `for` with its third part.

    Attributes:
        step: after each round.
    """

    condition: Expression
    body: Statement
    step: Statement | None
    place: Place


@dataclass(frozen=True, slots=True)
class Return:
    place: Place


Statement = Declare | Assign | Call | Block | If | Loop | Return


@dataclass(frozen=True, slots=True)
class Program:
    """A script that can be run."""

    body: Block
