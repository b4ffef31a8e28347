"""Modules of the asyncio face to which the generator adds forms of a call, such as `isend` and `ssend` from `send`.

`generate/native` has the input of such a module. A placeholder there, such as `def ibsend(self): ...`, makes the
generator derive the form `ibsend` from its source, the awaited method `bsend`. A form gets the signature and the
docstring of its source, adapted as the classes here say. An i-form gets the body of its source without `AwaitableCall`.
The placeholder states where the form differs: arguments, first sentence, entries of the docstring, body.
"""

from __future__ import annotations

import ast
import copy
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from .docstring import Doc, section
from .files import first_line, formatted, read
from .twins import Call, Module

#: letter of a mode -> its name (section 3.4)
_MODES: Final = {"b": "buffered", "s": "synchronous", "r": "ready"}
_STANDARD: Final = "standard mode (section 3.4)"
_INACTIVE: Final = "An inactive persistent request; `start` starts it, and `await` waits for it."
_KEPT: Final = "A request, which can be awaited any number of times."


class StartedForm(Call):
    """A form that is derived from an awaited method; a placeholder written by hand states the differences."""

    @staticmethod
    def source(name: str) -> str:
        """Return the name of the method from which `name` is derived; empty if `name` is not a name of this form."""
        raise NotImplementedError

    def _operation(self) -> ast.expr:
        """Return the call that starts the operation."""
        (value,) = (each.value for each in self.own.body if isinstance(each, ast.Return))
        assert isinstance(value, ast.Call), f"{self.own.name} does not return a call"
        assert ast.unparse(value.func) == "AwaitableCall", f"{self.own.name} does not return an AwaitableCall"
        operation = copy.deepcopy(value.args[0])
        if isinstance(operation, ast.Call):
            operation.keywords = [one for one in operation.keywords if one.arg != "at_once"]
        return operation


class InMode(StartedForm):
    """A send in another mode, such as `bsend`."""

    @staticmethod
    def source(name: str) -> str:
        if name[1:] != "send" or name[0].lower() not in _MODES:
            return ""
        return "Send" if name[0].isupper() else "send"

    @property
    def _mode(self) -> str:
        return _MODES[self.name[0].lower()]

    def _annotation(self) -> str:
        return ast.unparse(self.own.returns or ast.Constant(None))

    def _arguments(self) -> ast.arguments:
        return self.own.args

    def _body(self) -> Iterator[ast.stmt]:
        what, dest, tag = (argument.arg for argument in self.own.args.args[1:])
        start = "_isend_object" if what == "obj" else "_isend_buffer"
        call = f"self.{start}({what}, {dest}, {tag}, Mode.{self._mode.upper()})"
        yield from ast.parse(f"return AwaitableCall({call})").body

    def _doc(self) -> Doc:
        assert self.part is not None
        own, part = Doc.parse(ast.get_docstring(self.own) or ""), Doc.parse(ast.get_docstring(self.part) or "")
        arguments = [re.sub("(?<=the send is complete):.*", ".", entry) for entry in own.entries("Args")]
        *errors, last = own.entries("Raises")
        sections = {heading: text for heading, text in own.sections.items() if heading != "Example"}
        sections |= {"Args": section(arguments), "Raises": section([*errors, *part.entries("Raises"), last])}
        where = "sections 3.4 and 3.6" if self._mode == "buffered" else "section 3.4"
        return Doc(own.summary.replace(_STANDARD, f"{self._mode} mode ({where})"), part.summary, sections)


class Bound(StartedForm):
    """A persistent request, such as that of `Send_init`."""

    @staticmethod
    def source(name: str) -> str:
        return name.removesuffix("_init") if name.endswith("_init") else ""

    def _annotation(self) -> str:
        return f"PersistentRequest[{ast.unparse(self.result)}]"

    def _arguments(self) -> ast.arguments:
        arguments = copy.deepcopy(self.own.args)
        if arguments.args[-1].arg == "status":
            del arguments.args[-1], arguments.defaults[-1]
        return arguments

    def _body(self) -> Iterator[ast.stmt]:
        mode = _MODES.get(self.own.name[:-4].lower(), "standard").upper()
        memory = "core.conversion.prepare(buf, dest)"
        yield from ast.parse(f"core = self._admitted\nreturn core.send_init({memory}, dest, tag, Mode.{mode})").body

    def _doc(self) -> Doc:
        assert self.part is not None
        own, part = Doc.parse(ast.get_docstring(self.own) or ""), Doc.parse(ast.get_docstring(self.part) or "")
        names = {argument.arg for argument in self._arguments().args}
        entries = [re.sub("the (send|receive) is complete", "a run is complete", each) for each in own.entries("Args")]
        result = f" Its result is {own.result[0].lower()}{own.result[1:]}" if own.result else ""
        sections = {
            "Args": section(entry for entry in entries if entry.partition(":")[0] in names),
            "Returns": section([_INACTIVE + result], ""),
            "Raises": section(own.entries("Raises")),
            "Example": part.sections.get("Example", ""),
        }
        then = "; each start sends the current contents of the buffer" if self.own.name.lower().endswith("send") else ""
        summary = f"Bind the arguments of `I{self.own.name.lower()}`{then} (section 3.9)."
        return Doc(part.summary or summary, "", sections)


class IForm(StartedForm):
    """An i-form, such as `isend`, whose request is kept and awaited later."""

    @staticmethod
    def source(name: str) -> str:
        return {"i": name[1:], "I": name[1:].capitalize()}.get(name[0], "")

    def _annotation(self) -> str:
        return f"Request[{ast.unparse(self.result)}]"

    def _arguments(self) -> ast.arguments:
        assert self.part is not None
        return super()._arguments() if self.part.args.args[1:] else self.own.args

    def _body(self) -> Iterator[ast.stmt]:
        yield from self.own.body[1:-1]
        yield ast.Return(self._operation())

    def _doc(self) -> Doc:
        assert self.part is not None
        own, part = Doc.parse(ast.get_docstring(self.own) or ""), Doc.parse(ast.get_docstring(self.part) or "")
        names = [argument.arg for argument in self._arguments().args]
        described = {entry.partition(":")[0]: entry for doc in (own, part) for entry in doc.entries("Args")}
        sections = {
            "Args": section(entry for name, entry in described.items() if {*name.split(", ")} & {*names}),
            "Returns": own.returns.replace(", to be awaited once,", "").replace(
                "A request, to be awaited once.", _KEPT
            ),
            "Raises": section(own.entries("Raises")),
            "Example": part.sections.get("Example", ""),
        }
        started = re.sub(r"\bMPI_File_", "MPI_File_i", own.summary)
        summary = part.summary or f"Start to {started[0].lower()}{started[1:]}"
        return Doc(summary, part.text or own.text, sections)


class Begun(StartedForm):
    """The beginning of a split collective of a file, such as `Read_all_begin`."""

    @staticmethod
    def source(name: str) -> str:
        return name.removesuffix("_begin") if name.endswith("_begin") else ""

    def _annotation(self) -> str:
        return "None"

    def _arguments(self) -> ast.arguments:
        return self.own.args

    def _body(self) -> Iterator[ast.stmt]:
        operation = ast.unparse(self._operation()).replace("self._admitted", "file")
        yield from ast.parse(f'file = self._admitted\nfile.begin("{self.own.name}", lambda: {operation})').body

    def _doc(self) -> Doc:
        own = Doc.parse(ast.get_docstring(self.own) or "")
        errors = ["LocalProtocolError: another split collective is in progress on the file."]
        end = f"`{self.own.name}_end` raises the other errors"
        summary = f"Begin a `{self.own.name}`; {end} (MPI_File_{self.name.lower()})."
        return Doc(summary, "", {"Args": section(own.entries("Args")), "Raises": section(errors)})


class Ended(Begun):
    """The end of a split collective of a file, such as `Read_all_end`."""

    @staticmethod
    def source(name: str) -> str:
        return name.removesuffix("_end") if name.endswith("_end") else ""

    def _annotation(self) -> str:
        return ast.unparse(self.own.returns or ast.Constant(None))

    def _arguments(self) -> ast.arguments:
        arguments = copy.deepcopy(self.own.args)
        arguments.args = [argument for argument in arguments.args if argument.arg in ("self", "buf")]
        return arguments

    def _body(self) -> Iterator[ast.stmt]:
        yield from ast.parse(f'return AwaitableCall(self._admitted.end("{self.own.name}"), "File.{self.name}")').body

    def _doc(self) -> Doc:
        own = Doc.parse(ast.get_docstring(self.own) or "")
        summary = f"Complete the `{self.own.name}` that was begun (MPI_File_{self.name.lower()})."
        sections = {
            "Args": f"buf: the buffer that was given to `{self.own.name}_begin`.",
            "Returns": own.returns,
            "Raises": section(["LocalProtocolError: none was begun.", *own.entries("Raises")]),
        }
        return Doc(summary, "", sections)


@dataclass
class Started:
    """A file of the asyncio face, written with its forms.

    Attributes:
        path: path of the file, such as "native/access.py".
    """

    path: str
    face = "native"

    @property
    def inputs(self) -> tuple[str, ...]:
        """The file that it follows from."""
        return (f"generate/{self.path}",)

    def text(self) -> str:
        """Return the text that the file has when it is up to date."""
        text = read(*self.inputs)
        for kinds in ([InMode], [IForm, Bound, Begun, Ended]):  # a form in another mode is the source of others
            module = Module(text)
            for form in reversed([form for cls in module.classes().values() for form in _forms(module, cls, kinds)]):
                assert form.part is not None
                assert form.part.end_lineno is not None
                written = textwrap.indent(form.render(), "    ").splitlines()
                module.lines[form.part.lineno - 1 : form.part.end_lineno] = written
            text = "\n".join([*module.lines, ""])
        return formatted(f"{first_line(self.inputs)}\n{text}", self.path)


def _methods(cls: ast.ClassDef) -> list[ast.FunctionDef]:
    return [node for node in cls.body if isinstance(node, ast.FunctionDef)]


def _forms(module: Module, cls: ast.ClassDef, kinds: Sequence[type[StartedForm]]) -> Iterator[StartedForm]:
    """Yield the forms of these kinds of a class, in their order."""
    methods = {each.name: each for node in module.classes().values() for each in _methods(node)}
    for method in _methods(cls):
        for form in kinds:
            source = methods.get(form.source(method.name))
            if source is not None and source.returns is not None and method.returns is None:
                yield form(source, method, module.body(method))
