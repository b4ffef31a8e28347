"""`TokenReader`, the part of the parser that takes one token after the other."""

from __future__ import annotations

from typing import Final

from aiompi_launcher.conformance.script.errors import Place, ScriptError
from aiompi_launcher.conformance.script.lexer import Token, tokens

#: nested blocks, parentheses and signs, so that a text cannot exhaust the stack
DEEPEST: Final = 100

REFUSED: Final = {
    "&": "there are no pointers: give the variable itself, without &",
    "++": "there is no ++ here: write i = i + 1",
    "--": "there is no -- here: write i = i - 1",
}


class TokenReader:
    """Reads the tokens of a script."""

    def __init__(self, source: str) -> None:
        self._tokens = tokens(source)
        self._token = next(self._tokens)
        self._depth = 0

    def _error(self, problem: str, place: Place | None = None) -> ScriptError:
        return ScriptError(place or self._token.place, problem)

    def _next(self) -> Token:
        token = self._token
        if token.kind != "end":
            self._token = next(self._tokens)
        return token

    def _at(self, *signs: str) -> bool:
        return self._token.kind in ("sign", "name") and self._token.text in signs

    def _accept(self, *signs: str) -> Token | None:
        return self._next() if self._at(*signs) else None

    def _expect(self, sign: str) -> Token:
        token = self._accept(sign)
        if token is None:
            reason = REFUSED.get(self._token.text, f"expected {sign!r}, found {self._token.text!r}")
            raise self._error(reason)
        return token

    def _name(self) -> Token:
        if self._token.kind != "name":
            raise self._error(f"expected a name, found {self._token.text!r}")
        return self._next()

    def _deeper(self, step: int = 1) -> None:
        self._depth += step
        if self._depth > DEEPEST:
            raise self._error(f"nested more than {DEEPEST} deep")
