"""Runs programs in simulated processes, where MPI calls suspend, and in processes under test, where MPI calls block."""

from __future__ import annotations

import contextlib
import enum
import math
import operator
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from aiompi_launcher.conformance.script.calls import CALLS, Parameter, Signature
from aiompi_launcher.conformance.script.errors import MPIFailure, ScriptError
from aiompi_launcher.conformance.script.syntax import (
    Assign,
    Binary,
    Block,
    Call,
    Constant,
    Declare,
    Element,
    Expression,
    If,
    Loop,
    Number,
    Program,
    Return,
    Statement,
    Text,
    Unary,
    Variable,
)
from aiompi_launcher.conformance.script.types import Cells


class Level(enum.IntEnum):
    """The most severe event in a process during a test. The process reports its number when the test ends."""

    NOTHING = 0
    SKIPPED = 1
    INDETERMINATE = 2
    FAIL = 3


@dataclass(frozen=True, slots=True)
class Limits:
    """What a script may use.

    Attributes:
        steps: statements performed.
        output: characters printed and reported.
    """

    steps: int = 2_000_000
    output: int = 1_000_000


class Status(Protocol):
    """The status of a message, as an MPI implementation has it."""

    @property
    def source(self) -> int: ...
    @property
    def tag(self) -> int: ...
    @property
    def error(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Memory:
    """A buffer argument.

    Attributes:
        view: bytes from where the buffer begins to the end of the variable.
    """

    view: memoryview


class Mpi(Protocol):
    """An MPI implementation, as the machine sees it.

    For each call in `calls.CALLS` there is a coroutine method, whose name is in the call's signature. The method takes
    the parameters that the call reads. The method returns the value that the call writes, or a tuple if the call writes
    several values.
    """

    def constant(self, name: str) -> Any:
        """The value of a named constant."""


class Output(Protocol):
    """Where a script's texts go."""

    def print(self, text: str) -> None: ...
    def report(self, text: str) -> None: ...


class Exit(Exception):
    """The script has called `exit_interpreter()`."""


class _Returned(Exception):
    pass


def _quotient(left: int | float, right: int | float) -> int | float:
    """Divide as in C: a quotient of integers is cut towards zero."""
    if isinstance(left, int) and isinstance(right, int):
        quotient = abs(left) // abs(right)
        return quotient if (left < 0) == (right < 0) else -quotient
    return left / right


def _remainder(left: int | float, right: int | float) -> int:
    """Return the remainder as in C: with the sign of the dividend."""
    if not isinstance(left, int) or not isinstance(right, int):
        raise TypeError("% takes integers")
    return int(math.copysign(1, left)) * (abs(left) % abs(right))


_ARITHMETIC: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _quotient,
    "%": _remainder,
    "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b),
    ">": lambda a, b: int(a > b),
    ">=": lambda a, b: int(a >= b),
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
}
_BITS: Final = 128  # of an intermediate number, so that a loop cannot make it endlessly long


class Machine:
    """One run of a program in one process.

    Args:
        program: what to run.
        mpi: the implementation that performs its calls.
        output: for its texts.
        limits: what it may use.

    Attributes:
        level: the most severe thing so far.
        passed: True if it has reported `Result: Pass`.
        place: of the statement that is being performed.
    """

    def __init__(self, program: Program, mpi: Mpi, output: Output, limits: Limits | None = None) -> None:
        self._program = program
        self._mpi = mpi
        self._output = output
        self._limits = limits or Limits()
        self._steps = 0
        self._printed = 0
        self._variables: dict[Variable, Any] = {}
        self._functions: dict[int, Callable[[], Any]] = {}
        self._perform: dict[type, Callable[[Any], Awaitable[None]]] = {
            Block: self._block,
            If: self._if,
            Loop: self._loop,
            Call: self._call,
        }
        self.level = Level.NOTHING
        self.passed = False
        self.place = program.body.place

    async def run(self) -> None:
        """Run it to its end.

        Raises:
            ScriptError: it broke a rule of the language.
            MPIFailure: a call failed, and the script ignores its return code.
            Exit: it has called `exit_interpreter()`.
        """
        with contextlib.suppress(_Returned):
            await self._statement(self._program.body)

    async def _statement(self, statement: Statement) -> None:
        self.place = statement.place
        self._steps += 1
        if self._steps > self._limits.steps:
            raise ScriptError(statement.place, f"more than {self._limits.steps} steps")
        if isinstance(statement, Assign):
            self._store(statement.target, self._value(statement.value))
        elif isinstance(statement, Declare):
            self._declare(statement.variable)
        elif isinstance(statement, Return):
            raise _Returned
        else:
            await self._perform[type(statement)](statement)

    async def _block(self, block: Block) -> None:
        for statement in block.statements:
            await self._statement(statement)

    async def _if(self, statement: If) -> None:
        if self._value(statement.condition):
            await self._statement(statement.then)
        elif statement.otherwise is not None:
            await self._statement(statement.otherwise)

    async def _loop(self, loop: Loop) -> None:
        while self._value(loop.condition):
            await self._statement(loop.body)
            if loop.step is not None:
                await self._statement(loop.step)

    # Variables.

    def _declare(self, variable: Variable) -> None:
        length = variable.length or 1
        null = f"MPI_{variable.type.handle.upper()}_NULL".replace("MPI_TYPE_", "MPI_DATATYPE_")
        new = [self._mpi.constant(null)] * length if variable.type.handle else Cells(variable.type, length)
        self._variables[variable] = new

    def _place_in(self, element: Element) -> tuple[Any, int]:
        """The memory of a variable, and the index in it."""
        memory = self._variables[element.variable]
        if element.index is None:
            return memory, 0
        index = self._value(element.index)
        count = len(memory) if isinstance(memory, list) else memory.count
        if not isinstance(index, int) or not 0 <= index < count:
            raise ScriptError(element.place, f"{element.variable.name}[{index}]: it has elements 0 to {count - 1}")
        return memory, index

    def _store(self, element: Element, value: Any) -> None:
        memory, index = self._place_in(element)
        if isinstance(memory, list):
            memory[index] = value
            return
        try:
            memory.set(index, value)
        except (OverflowError, ValueError) as error:
            raise ScriptError(element.place, f"{element.variable.name}: {error}") from None

    # Expressions. Each is made into a function when it is first needed, and kept.

    def _value(self, expression: Expression) -> Any:
        function = self._functions.get(id(expression))
        if function is None:
            function = self._functions[id(expression)] = self._function(expression)
        return function()

    def _function(self, expression: Expression) -> Callable[[], Any]:
        if isinstance(expression, Number | Text):
            value = expression.value
            return lambda: value
        if isinstance(expression, Element):
            return self._load(expression)
        if isinstance(expression, Constant):
            constant = self._mpi.constant(expression.name)
            return lambda: constant
        if isinstance(expression, Unary):
            return self._unary(expression)
        return self._binary(expression)

    def _load(self, element: Element) -> Callable[[], Any]:
        variables, variable = self._variables, element.variable

        def indexed() -> Any:
            memory, index = self._place_in(element)
            return memory[index] if isinstance(memory, list) else memory.get(index)

        def scalar() -> Any:
            return variables[variable].get(0)

        return indexed if element.index is not None or variable.type.handle else scalar

    def _unary(self, expression: Unary) -> Callable[[], int | float]:
        operand = self._function(expression.operand)
        if expression.sign == "!":
            return lambda: int(not operand())
        return (lambda: -operand()) if expression.sign == "-" else operand

    def _binary(self, expression: Binary) -> Callable[[], int | float]:
        sign = expression.sign
        left, right = self._function(expression.left), self._function(expression.right)
        if sign == "&&":
            return lambda: int(bool(left()) and bool(right()))
        if sign == "||":
            return lambda: int(bool(left()) or bool(right()))
        operation = _ARITHMETIC[sign]

        def value() -> int | float:
            a, b = left(), right()
            try:
                result: int | float = operation(a, b)
            except (ArithmeticError, TypeError) as error:
                raise ScriptError(expression.place, f"{a} {sign} {b}: {error}") from None
            if isinstance(result, int) and result.bit_length() > _BITS:
                raise ScriptError(expression.place, f"the result of {sign} has more than {_BITS} bits")
            return result

        return value

    # Calls.

    async def _call(self, call: Call) -> None:
        signature = CALLS[call.name]
        if signature.format:
            self._text(signature.name, call)
            return
        if call.name == "exit_interpreter":
            raise Exit
        code = "MPI_SUCCESS"
        try:
            await self._invoke(signature, call)
        except MPIFailure as failure:
            if call.target is None:
                raise MPIFailure(failure.name, f"{call.name} at {call.place}: {failure}") from failure
            code = failure.name
        if call.target is not None:
            self._store(call.target, self._mpi.constant(code))

    async def _invoke(self, signature: Signature, call: Call) -> None:
        pairs = list(zip(signature.parameters, call.arguments, strict=True))
        values = [self._argument(parameter, argument) for parameter, argument in pairs if parameter.read]
        outcome = await getattr(self._mpi, signature.method)(*values)
        targets = [(parameter, argument) for parameter, argument in pairs if parameter.written]
        for (parameter, argument), value in zip(targets, outcome if len(targets) > 1 else (outcome,), strict=False):
            assert isinstance(argument, Element)
            self._written(parameter, argument, value)

    def _argument(self, parameter: Parameter, argument: Expression) -> Any:
        if parameter.kind not in ("buf", "ints", "requests", "status"):
            return self._value(argument)
        assert isinstance(argument, Element)
        memory, index = self._place_in(argument)
        if parameter.kind == "requests":
            return memory[index:]
        if parameter.kind == "ints":
            return [memory.get(place) for place in range(index, memory.count)]
        if parameter.kind == "buf":
            return Memory(memoryview(memory.data)[memory.offset(index) :])
        if index not in memory.hidden:
            raise ScriptError(argument.place, f"{argument.variable.name} is no status yet: no call has filled it")
        return memory.hidden[index]

    def _written(self, parameter: Parameter, argument: Element, value: Any) -> None:
        if parameter.kind == "requests":
            memory, index = self._place_in(argument)
            memory[index : index + len(value)] = value
        elif parameter.kind == "statuses":
            for number, status in enumerate(value):
                self._write_status(argument, status, 3 * number)
        elif parameter.kind == "status":
            self._write_status(argument, value, 0)
        else:
            self._store(argument, value)

    def _write_status(self, argument: Element, status: Status, distance: int) -> None:
        memory, index = self._place_in(argument)
        index += distance
        if index + 3 > memory.count:
            raise ScriptError(argument.place, f"{argument.variable.name} is too short for a status: it takes 3 ints")
        for offset, value in enumerate((status.source, status.tag, status.error)):
            memory.set(index + offset, value)
        memory.hidden[index] = status

    def _text(self, name: str, call: Call) -> None:
        numbers = tuple(float(self._value(argument)) for argument in call.arguments[1:])
        text = call.arguments[0]
        assert isinstance(text, Text)
        line = text.value % numbers
        self._printed += len(line)
        if self._printed > self._limits.output:
            raise ScriptError(call.place, f"more than {self._limits.output} characters of output")
        if name == "printf":
            self._output.print(line)
            return
        self._judge(line)
        self._output.report(line)

    def _judge(self, line: str) -> None:
        """Record the verdict that a reported line gives about the test (section 5.3)."""
        if line.startswith("Result: Pass"):
            self.passed = True
        elif line.startswith("Result: Fail"):
            self.level = max(self.level, Level.FAIL)
        elif line.startswith("Test skipped"):
            self.level = max(self.level, Level.SKIPPED)
