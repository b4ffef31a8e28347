"""Makes a program from tokens, and checks all that is known before the run: names, types, numbers of arguments."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Final, TypeVar

from aiompi_launcher.conformance.script.calls import CALLS, CONSTANTS, STATUS_INDICES, Parameter, Signature
from aiompi_launcher.conformance.script.errors import Place
from aiompi_launcher.conformance.script.lexer import Token
from aiompi_launcher.conformance.script.reader import REFUSED, TokenReader
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
from aiompi_launcher.conformance.script.types import TYPES, Type

Value = TypeVar("Value", bound=Expression)

#: memory of all variables of a script, in bytes
MOST_MEMORY: Final = 64 * 2**20
_TYPE_WORDS: Final = {word for name in TYPES for word in name.split()}
_LEVELS: Final = (("||",), ("&&",), ("==", "!="), ("<", "<=", ">", ">="), ("+", "-"), ("*", "/", "%"))
_CONVERSION: Final = re.compile(r"%(?:%|(?:\d{0,2}(?:\.\d)?)f)|%")
#: handle kinds of parameters; arrays of them have an s
_PLURALS: Final = {"requests": "request", "statuses": "status", "ints": "int"}


@functools.lru_cache(maxsize=32)
def parse(source: str) -> Program:
    """A program of a source text, which all processes of the tester share.

    Raises:
        ScriptError: the text is no script; the message names line and column.
    """
    return _Parser(source).program()


class _Parser(TokenReader):
    def __init__(self, source: str) -> None:
        super().__init__(source)
        self._scopes: list[dict[str, Variable]] = []
        self._bytes = 0
        self._declared_on = 0

    def program(self) -> Program:
        body = self._block()
        if self._token.kind != "end":
            raise self._error("the script ends with the } of its first {; nothing may follow")
        return Program(body)

    # Statements.

    def _block(self) -> Block:
        place = self._expect("{").place
        self._deeper()
        self._scopes.append({})
        statements: list[Statement] = []
        while not self._accept("}"):
            if self._token.kind == "end":
                raise self._error("the script ends inside a block: a } is missing")
            statements.append(self._declaration() if self._at(*_TYPE_WORDS) else self._statement())
        self._scopes.pop()
        self._deeper(-1)
        return Block(tuple(statements), place)

    def _declaration(self) -> Declare:
        first = self._token
        words = []
        while self._at(*_TYPE_WORDS):
            words.append(self._next().text)
        name = self._name()
        if first.place.line == self._declared_on:
            raise self._error("only one declaration a line", first.place)
        self._declared_on = first.place.line
        type = self._type(" ".join(words), first.place)
        length = self._length() if self._accept("[") else None
        if self._at(",", "="):
            raise self._error("one variable a declaration, and its value in a statement of its own")
        self._expect(";")
        return Declare(self._declare(name, type, length), first.place)

    def _type(self, name: str, place: Place) -> Type:
        if name == "unsigned":
            name = "unsigned int"
        if name not in TYPES:
            raise self._error(f"there is no type {name!r}; there are {', '.join(TYPES)}", place)
        return TYPES[name]

    def _length(self) -> int:
        token = self._next()
        if token.kind != "number" or not isinstance(token.value, int) or token.value < 1:
            raise self._error("the length of an array is a number, at least 1", token.place)
        self._expect("]")
        if self._at("["):
            raise self._error("arrays have one dimension")
        return token.value

    def _declare(self, token: Token, type: Type, length: int | None) -> Variable:
        if token.text in self._scopes[-1]:
            raise self._error(f"{token.text} is declared twice in this block", token.place)
        if token.text in CONSTANTS or token.text in CALLS or token.text in STATUS_INDICES:
            raise self._error(f"{token.text} means something already", token.place)
        self._bytes += (type.size or 8) * (length or 1)
        if self._bytes > MOST_MEMORY:
            raise self._error(f"the variables take more than {MOST_MEMORY} bytes", token.place)
        variable = Variable(token.text, type, length, token.place)
        self._scopes[-1][token.text] = variable
        return variable

    def _statement(self) -> Statement:
        self._deeper()
        try:
            if self._at("{"):
                return self._block()
            if self._at(*_TYPE_WORDS):
                raise self._error("a declaration belongs into a block")
            token = self._token
            special: dict[str, Callable[[Place], Statement]] = {
                "if": self._if,
                "while": self._while,
                "for": self._for,
                "return": self._return,
            }
            if token.kind == "name" and token.text in special:
                self._next()
                return special[token.text](token.place)
            statement = self._simple()
            self._expect(";")
            return statement
        finally:
            self._depth -= 1

    def _if(self, place: Place) -> If:
        condition = self._condition()
        then = self._statement()
        return If(condition, then, self._statement() if self._accept("else") else None, place)

    def _while(self, place: Place) -> Loop:
        condition = self._condition()
        return Loop(condition, self._statement(), None, place)

    def _for(self, place: Place) -> Block:
        self._expect("(")
        first = self._simple()
        self._expect(";")
        condition = self._number()
        self._expect(";")
        step = self._increment()
        self._expect(")")
        return Block((first, Loop(condition, self._statement(), step, place)), place)

    def _return(self, place: Place) -> Return:
        self._expect(";")
        return Return(place)

    def _condition(self) -> Expression:
        self._expect("(")
        condition = self._number()
        self._expect(")")
        return condition

    def _simple(self) -> Assign | Call:
        """An assignment or a call, without its semicolon."""
        token = self._name()
        if self._at("("):
            return self._call(token, None)
        target = self._element(token)
        self._expect("=")
        if self._token.kind == "name" and self._token.text in CALLS:
            self._number_of(target)
            return self._call(self._next(), target)
        value = self._expression()
        if _kind(target) != _kind(value):
            raise self._error(f"{_kind(value)} cannot be assigned to {_kind(target)} {token.text}", token.place)
        self._scalar(target)
        return Assign(target, value, token.place)

    def _increment(self) -> Assign | Call:
        """Parse the third part of `for`. Only this part may be `i++`, as in the first sample of the document."""
        name = self._name()
        if self._at("("):
            return self._call(name, None)
        target = self._scalar(self._number_of(self._element(name)))
        if sign := self._accept("++", "--"):
            value: Expression = Binary(sign.text[0], target, Number(1, sign.place), sign.place)
        else:
            self._expect("=")
            value = self._number()
        return Assign(target, value, name.place)

    # Calls.

    def _call(self, token: Token, target: Element | None) -> Call:
        signature = CALLS.get(token.text)
        if signature is None:
            raise self._error(f"there is no call {token.text}", token.place)
        self._expect("(")
        arguments: list[Expression] = []
        while not self._at(")"):
            if arguments:
                self._expect(",")
            arguments.append(self._argument(signature, len(arguments)))
        self._expect(")")
        if len(arguments) < len(signature.parameters):
            wanted = len(signature.parameters)
            raise self._error(f"{token.text} takes {wanted} arguments, here are {len(arguments)}", token.place)
        if signature.format:
            self._format(arguments)
        return Call(token.text, tuple(arguments), target, token.place)

    def _argument(self, signature: Signature, position: int) -> Expression:
        if position < len(signature.parameters):
            return self._fitting(signature.parameters[position], f"argument {position + 1} of {signature.name}")
        if not signature.format:
            raise self._error(f"{signature.name} takes {len(signature.parameters)} arguments, here are more")
        return self._number()

    def _fitting(self, parameter: Parameter, what: str) -> Expression:
        place = self._token.place
        argument = self._expression(whole=True)
        wanted = _PLURALS.get(parameter.kind, parameter.kind)
        if parameter.written or wanted in ("buf", "status") or wanted != parameter.kind:
            if not isinstance(argument, Element):
                raise self._error(f"{what} must be a variable", place)
            self._memory(argument, wanted, what)
            return argument
        kind = "text" if isinstance(argument, Text) else _kind(argument)
        if kind != ("number" if wanted in ("int", "double") else wanted):
            raise self._error(f"{what} must be of kind {wanted}, this is of kind {kind}", place)
        return argument if kind == "text" else self._scalar(argument)

    def _memory(self, argument: Element, wanted: str, what: str) -> None:
        type = argument.variable.type
        fits = {
            "buf": not type.handle,
            "status": type.name == "int" and argument.variable.length is not None,
            "int": len(type.codes) == 1,
            "double": type.name == "double",
        }.get(wanted, type.handle == wanted)
        if not fits:
            needed = {"status": "an int array of 3", "buf": "a variable of numbers"}.get(wanted, f"of kind {wanted}")
            raise self._error(f"{what} must be {needed}, {argument.variable.name} is {type.name}", argument.place)

    def _format(self, arguments: list[Expression]) -> None:
        text = arguments[0]
        assert isinstance(text, Text)
        found = [match[0] for match in _CONVERSION.finditer(text.value)]
        if "%" in found:
            raise self._error("numbers are formatted with %f, such as %.0f; a percent sign is %%", text.place)
        wanted = sum(conversion != "%%" for conversion in found)
        if wanted != len(arguments) - 1:
            raise self._error(f"the format has {wanted} numbers, {len(arguments) - 1} follow it", text.place)

    # Expressions.

    def _number(self) -> Expression:
        return self._scalar(self._number_of(self._expression()))

    def _number_of(self, value: Value) -> Value:
        if _kind(value) != "number":
            raise self._error(f"a number is needed, this is of kind {_kind(value)}", value.place)
        return value

    def _scalar(self, value: Value) -> Value:
        if isinstance(value, Element) and value.index is None and value.variable.length is not None:
            raise self._error(f"{value.variable.name} is an array: which element?", value.place)
        return value

    def _expression(self, level: int = 0, *, whole: bool = False) -> Expression:
        """Parse an expression. With `whole` (for arguments of calls), an array name or a string is allowed, too."""
        if level == len(_LEVELS):
            return self._unary(whole=whole)
        left = self._expression(level + 1, whole=whole)
        while token := self._accept(*_LEVELS[level]):
            right = self._expression(level + 1)
            self._operands(token, left, right)
            left = Binary(token.text, left, right, token.place)
        return left

    def _operands(self, token: Token, left: Expression, right: Expression) -> None:
        for operand in (left, right):
            self._scalar(operand)
        handles = token.text in ("==", "!=") and _kind(left) == _kind(right)
        if not handles:
            self._number_of(left)
            self._number_of(right)

    def _unary(self, *, whole: bool) -> Expression:
        token = self._token
        if self._accept("-", "+", "!"):
            self._deeper()
            operand = self._scalar(self._number_of(self._unary(whole=False)))
            self._deeper(-1)
            return Unary(token.text, operand, token.place)
        return self._primary(whole)

    def _primary(self, whole: bool) -> Expression:
        token = self._next()
        if token.kind == "number":
            return Number(token.value, token.place)
        if token.kind == "text" and whole:
            return Text(token.text, token.place)
        if token.kind == "name":
            return self._word(token, whole)
        if token.text == "(":
            self._deeper()
            inner = self._expression()
            self._expect(")")
            self._deeper(-1)
            return inner
        raise self._error(REFUSED.get(token.text, f"expected a value, found {token.text!r}"), token.place)

    def _word(self, token: Token, whole: bool) -> Expression:
        if token.text in CALLS:
            raise self._error("a call is a statement of its own, or `variable = call(...);`", token.place)
        if token.text in STATUS_INDICES:
            return Number(STATUS_INDICES[token.text], token.place)
        if token.text in CONSTANTS and not any(token.text in scope for scope in self._scopes):
            return Constant(token.text, CONSTANTS[token.text], token.place)
        element = self._element(token)
        return element if whole else self._scalar(element)

    def _element(self, token: Token) -> Element:
        variable = next((scope[token.text] for scope in reversed(self._scopes) if token.text in scope), None)
        if variable is None:
            raise self._error(f"{token.text} is not declared", token.place)
        if not self._accept("["):
            return Element(variable, None, token.place)
        if variable.length is None and len(variable.type.codes) != 2:
            raise self._error(f"{token.text} is no array", token.place)
        self._deeper()
        index = self._number()
        self._deeper(-1)
        self._expect("]")
        return Element(variable, index, token.place)


def _kind(value: Expression) -> str:
    """`number`, or the kind of a handle."""
    if isinstance(value, Element):
        return value.variable.type.handle or "number"
    if isinstance(value, Constant):
        return "number" if value.kind == "int" else value.kind
    return "text" if isinstance(value, Text) else "number"
