"""Characters to tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from aiompi_launcher.conformance.script.errors import Place, ScriptError

#: longest script: the text of a stranger must not keep the parser busy
LONGEST_SOURCE: Final = 256 * 1024  # characters

_TOKEN: Final = re.compile(
    r"""
    (?P<blank>[ \t\r\n]+ | //[^\n]*)
  | (?P<comment>/\*(?:[^*]|\*(?!/))*\*/)
  | (?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<text>"(?:[^"\\\n]|\\[^\n])*")
  | (?P<character>'(?:[^'\\\n]|\\[^\n])')
  | (?P<sign>\|\||&&|==|!=|<=|>=|\+\+|--|/(?!\*)|[-+*%<>=!(){}\[\];,&])
    """,
    re.VERBOSE | re.ASCII,
)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\", '"': '"', "'": "'"}
_UNFINISHED: Final = {"/*": "comment", '"': "string", "'": "character"}


@dataclass(frozen=True, slots=True)
class Token:
    """A word of a script.

    Attributes:
        kind: `number`, `name`, `text`, `sign`, or `end` after the last one.
        text: the token as written; for kind `text`, the content of the string with its escapes replaced.
        value: value of a token of kind `number`.
        place: place of the token's first character.
    """

    kind: str
    text: str
    value: int | float
    place: Place


def tokens(source: str) -> Iterator[Token]:
    """The tokens of a script, the last one of kind `end`; comments and blanks are dropped.

    Raises:
        ScriptError: the script is too long, or has a character that starts no token.
    """
    if len(source) > LONGEST_SOURCE:
        raise ScriptError(Place(1, 1), f"the script has {len(source)} characters; {LONGEST_SOURCE} are allowed")
    line, start, position = 1, 0, 0
    while position < len(source):
        place = Place(line, position - start + 1)
        match = _TOKEN.match(source, position)
        if match is None:
            raise ScriptError(place, _complaint(source, position))
        if match.lastgroup not in ("blank", "comment"):
            yield _token(match, place)
        newlines = match[0].count("\n")
        if newlines:
            line += newlines
            start = match.start() + match[0].rindex("\n") + 1
        position = match.end()
    yield Token("end", "end of script", 0, Place(line, position - start + 1))


def _complaint(source: str, position: int) -> str:
    for opening, what in _UNFINISHED.items():
        if source.startswith(opening, position):
            return f"this {what} does not end"
    return f"the language has no {source[position]!r}"


def _token(match: re.Match[str], place: Place) -> Token:
    kind, text = match.lastgroup or "", match[0]
    if kind == "number":
        return Token(kind, text, _number(text, place), place)
    if kind == "text":
        return Token(kind, _unescape(text[1:-1], place), 0, place)
    if kind == "character":
        return Token("number", text, ord(_unescape(text[1:-1], place)) & 0xFF, place)
    return Token(kind, text, 0, place)


def _number(text: str, place: Place) -> int | float:
    if not text.isdigit():
        return float(text)
    if len(text) > 20 or (len(text) > 1 and text[0] == "0"):
        raise ScriptError(place, f"{text[:24]} is no number of this language: decimal, up to 64 bits, no leading zero")
    return int(text)


def _unescape(text: str, place: Place) -> str:
    def meaning(match: re.Match[str]) -> str:
        if match[1] not in _ESCAPES:
            raise ScriptError(place, f"the language has no \\{match[1]} in strings")
        return _ESCAPES[match[1]]

    return re.sub(r"\\(.)", meaning, text)
