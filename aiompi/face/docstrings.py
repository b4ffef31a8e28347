"""Docstrings of the blocking face: each method has a summary of its own, and takes the rest from the native face.

Arguments, results, errors and the section of the standard are described once: at the native method of the same name,
or at the method that one of the two summaries names in backquotes ("Start a `Bcast`."). What is the same for all
methods is in the tables below.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Iterator
from types import FunctionType
from typing import Final, TypeAlias

_HEADING: Final = re.compile(r"^(Args|Returns|Raises):\n", re.MULTILINE)
_ENTRY: Final = re.compile(r"^    (\w+(?:, \w+)*)(:.*(?:\n     .*)*)", re.MULTILINE)
_REFERENCE: Final = re.compile(r"`(\w+)`")
_STANDARD: Final = re.compile(r" \((?:[^()]*, )?(?:MPI[_-]|section)[^()]*\)")
_DONE: Final = "_is_described"
_REQUEST: Final = "A request whose result is "

#: argument -> what it is in every method that does not say otherwise
_ARGUMENTS: Final = {
    "algorithm": "algorithm instead of the one that the settings and the tuning data choose.",
    "arg": "number of the object.",
    "attrval": "any object.",
    "buf": "a buffer specification (`aiompi.typing.BufSpec`).",
    "comm": "a communicator.",
    "dest": "rank, or PROC_NULL.",
    "errorcode": "error code; of `Abort`, exit status of the job.",
    "info": "hints, of which none is known.",
    "keyval": "key that `Create_keyval` returned.",
    "obj": "a Python object.",
    "offset": "in elementary types of the view.",
    "op": "operation; for objects, also a function of two of them.",
    "rank": "a rank of this communicator.",
    "recvtag": "0..TAG_UB or ANY_TAG.",
    "requests": "a sequence of requests.",
    "root": "rank of the root; on an intercommunicator ROOT, PROC_NULL, or its rank in the remote group.",
    "sendobj": "a Python object.",
    "sendtag": "0..TAG_UB.",
    "source": "rank, ANY_SOURCE or PROC_NULL.",
    "status": "filled with the envelope of the message, or with what was read or written.",
    "statuses": "filled with the status of each request, and extended when too short.",
    "tag": "0..TAG_UB; ANY_TAG where a message is received or probed.",
}
#: argument -> the errors of a wrong one
_ERRORS: Final = {
    "buf": "InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.",
    "sendbuf": "InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.",
    "dest": "InvalidRankError: there is no such rank.",
    "source": "InvalidRankError: there is no such rank.",
    "tag": "InvalidTagError: the tag is out of range.",
    "sendtag": "InvalidTagError: a tag is out of range.",
    "root": "InvalidRootError: there is no such rank.",
    "op": "InvalidOpError: the operation is null, or not defined for the datatype.",
    "loop": "BlockingCallError: an event loop is running in this thread.",
}
_COMMUNICATOR: Final = "The new communicator; null in a process that is not in it."
#: class of a result -> what the result is in every method that does not say otherwise
_RESULTS: Final = {
    "Request": "A request; `Wait` or `Test` completes it.",
    "Prequest": "An inactive persistent request; `Start` starts the operation.",
    "Inactive": "An inactive persistent request; `Start`, in the asyncio face `start`, starts the operation.",
    "Message": "The message; `recv` or `Recv` receives it.",
    "C": "The duplicate.",
    **dict.fromkeys(("Comm", "Intracomm", "Intercomm", "Cartcomm", "Graphcomm", "Distgraphcomm"), _COMMUNICATOR),
}

#: a docstring: its text under "", and its sections by their headings
Parts: TypeAlias = dict[str, str]


def complete(cls: type, native: type | None) -> None:
    """Complete the docstrings of the methods that a class of the blocking face defines or inherits.

    Args:
        cls: the class.
        native: class of the native face with the same methods; None if there is none.
    """
    for base in cls.__mro__:
        if base.__module__.startswith("aiompi.") and ".collective" not in base.__module__:
            for name, value in vars(base).items():
                function = getattr(value, "__func__", value)
                if isinstance(function, FunctionType) and not name.startswith("_") and _DONE not in function.__dict__:
                    _complete(name, function, cls, native)


def _complete(name: str, function: FunctionType, cls: type, native: type | None) -> None:
    function.__dict__[_DONE] = True
    inner = inspect.unwrap(function)  # hooks may be around it
    if inner.__doc__ is None or hasattr(inner, "is_absent"):
        return
    parts = list(_sources(name, (cls, native), set()))
    count = inner.__code__.co_argcount + inner.__code__.co_kwonlyargcount
    arguments = [name for name in inner.__code__.co_varnames[:count] if name not in ("self", "cls")]
    own, result = parts[0], inner.__annotations__.get("return", "")
    sections = {
        "Args": "\n".join(_argument(name, parts) for name in arguments),
        "Returns": _returns(result, parts),
        "Raises": _raises(inner, arguments, parts),
    }
    text = _with_standard(own[""], parts)
    text += "".join(f"\n\n{heading}:\n{section}" for heading, section in sections.items() if section)
    function.__doc__ = inner.__doc__ = text + "\n"
    inner.__dict__[_DONE] = True


def _sources(name: str, classes: tuple[type | None, ...], seen: set[str]) -> Iterator[Parts]:
    """The docstrings of a method, of the native one, and of those that they refer to."""
    found = [_parse(doc) for cls in classes if (doc := getattr(getattr(cls, name, None), "__doc__", None))]
    seen.add(name)
    yield from found
    for parts in found:
        for reference in _REFERENCE.findall(parts[""]):
            if reference not in seen:
                yield from _sources(reference, classes, seen)


@functools.cache
def _parse(docstring: str) -> Parts:
    text, *parts = _HEADING.split(inspect.cleandoc(docstring))
    return {
        "": text.rstrip(),
        **{heading: part.rstrip() for heading, part in zip(parts[::2], parts[1::2], strict=True)},
    }


def _argument(name: str, sources: list[Parts]) -> str:
    """The lines on an argument."""
    for parts in sources:
        if found := _entries(parts.get("Args", "")).get(name):
            return f"    {name}{found}"
    return f"    {name}: {_ARGUMENTS[name]}"


@functools.cache
def _entries(section: str) -> dict[str, str]:
    """Return the text of a section on each argument, from the colon on."""
    return {name: match[2] for match in _ENTRY.finditer(section) for name in match[1].split(", ")}


def _returns(annotation: str, sources: list[Parts]) -> str:
    """The section on the result; a call that waits returns what the request of the native one gives."""
    if annotation in ("None", "NoReturn"):
        return ""
    default = _RESULTS.get(re.split(r"\W", annotation)[0], "")
    own, *others = (parts.get("Returns", "") for parts in sources)
    native = next(filter(None, others), "").strip()
    if native.startswith(_REQUEST) and not default:
        native = native.removeprefix(_REQUEST)
        native = native[0].upper() + native[1:]
    text = default if default and not native.startswith(_REQUEST) else native
    return own or (text and f"    {text}")


def _raises(function: FunctionType, arguments: list[str], sources: list[Parts]) -> str:
    """The section on errors: the first that there is, what the arguments add, and the error of calls that block."""
    lines = [next((parts["Raises"] for parts in sources if "Raises" in parts), "")]
    if function.__name__.islower():
        arguments = [name for name in arguments if name != "buf"]
    if {"_entered", "check_running_loop"} & {*function.__code__.co_names}:
        arguments = [*arguments, "loop"]
    for name in arguments:
        error = _ERRORS.get(name, "")
        if error and error.partition(":")[0].partition(",")[0] not in "".join(lines):
            lines.append(f"    {error}")
    return "\n".join(filter(None, lines))


def _with_standard(text: str, sources: list[Parts]) -> str:
    """The text, with the section of the standard in its first sentence."""
    standard = next((match[0] for parts in sources if (match := _STANDARD.search(parts[""]))), "")
    if not standard or _STANDARD.search(text):
        return text
    summary, dot, rest = text.partition(".")
    return summary + standard + dot + rest
