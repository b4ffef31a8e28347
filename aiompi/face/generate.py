"""Writes what follows from the asyncio face by a rule: forms of its collectives, and constructors of the blocking face.

    python aiompi/face/generate.py            # writes the files
    python aiompi/face/generate.py --check    # exits with 1 if one of them is not up to date

A method of the asyncio face such as `Bcast` is the source of up to four forms: `Ibcast` and `Bcast_init` of the same
face, and `Bcast`, `Ibcast` and `Bcast_init` of the blocking one. A form has the signature of its source, its docstring
with the changes that the form needs, and one call. The files are committed, so that editors and type checkers read them
as any other file; ruff formats them.
"""

from __future__ import annotations

import ast
import copy
import inspect
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FACE: Final = Path(__file__).parent
WIDTH: Final = 120
#: what the blocking face has by hand, because mpi4py's takes None in place of as many None
BY_HAND: Final = {"scatter", "alltoall", "neighbor_alltoall"}
BLOCKED: Final = "BlockingCallError: an event loop is running in this thread."
REQUEST: Final = "A request whose result is "

_HEADING: Final = re.compile(r"^(Args|Returns|Raises|Cancelling|Example):\n", re.MULTILINE)
_STANDARD: Final = re.compile(r" \(((?:[^()]*, )?(?:MPI[_-]|section)[^()]*)\)")
#: this module imports the written ones, which import it for type checkers only
_COMMUNICATORS: Final = "aiompi.face.blocking.communicator"
#: name -> module from which a file that uses the name imports it
_MODULES: Final = {
    "Any": "typing",
    "Cartcomm": _COMMUNICATORS,
    "Comm": _COMMUNICATORS,
    "Distgraphcomm": _COMMUNICATORS,
    "Graphcomm": _COMMUNICATORS,
    "Group": "aiompi.comm",
    "Intercomm": _COMMUNICATORS,
    "Intracomm": _COMMUNICATORS,
    "BufSpec": "aiompi.typing",
    "BufSpecB": "aiompi.typing",
    "BufSpecV": "aiompi.typing",
    "BufSpecW": "aiompi.typing",
    "Callable": "collections.abc",
    "Handle": "aiompi.face.{face}.handle",
    "INFO_NULL": "aiompi.info",
    "InPlace": "aiompi.typing",
    "Info": "aiompi.info",
    "MaybeNone": "aiompi.typing",
    "Op": "aiompi.op",
    "PersistentRequest": "aiompi.engine",
    "Prequest": "aiompi.face.blocking.request_kinds",
    "SUM": "aiompi.op",
    "Sequence": "collections.abc",
    "TypeVar": "typing",
    "buffers": "aiompi.coll",
    "cast": "typing",
    "create": "aiompi",
    "neighborhood": "aiompi.coll",
    "objects": "aiompi.coll",
    "overload": "typing",
    "peer_of": "aiompi.face.common",
    "process": "aiompi.face.blocking.process",
}


@dataclass
class Doc:
    """A docstring in parts.

    Attributes:
        summary: the first paragraph, in one line.
        text: further paragraphs, without indentation.
        sections: heading -> its lines, without indentation.
    """

    summary: str
    text: str
    sections: dict[str, str]

    @classmethod
    def parse(cls, docstring: str) -> Doc:
        top, *parts = _HEADING.split(inspect.cleandoc(docstring))
        summary, _, text = top.strip().partition("\n\n")
        sections = {name: textwrap.dedent(part).strip() for name, part in zip(parts[::2], parts[1::2], strict=True)}
        return cls(" ".join(summary.split()), text.strip(), sections)

    def entries(self, heading: str) -> list[str]:
        """Return the entries of a section, such as "root: rank.", each in one line."""
        section = self.sections.get(heading, "")
        return [" ".join(entry.split()) for entry in re.split(r"\n(?=\S)", section) if entry]

    def render(self) -> str:
        """Return the lines of the docstring in a method, with the quotes."""
        parts = [_filled(self.summary, WIDTH - 8, '"""')]
        parts += [self.text] if self.text else []
        for heading in ("Args", "Returns", "Raises", "Cancelling", "Example"):
            if section := self.sections.get(heading):
                parts.append(f"{heading}:\n{textwrap.indent(section, '    ')}")
        return "\n\n".join(parts) + ('"""' if len(parts) == 1 else '\n"""')


def _filled(text: str, width: int, first: str = "", hanging: str = "") -> str:
    return "\n".join(
        textwrap.wrap(text, width, initial_indent=first, subsequent_indent=hanging, break_on_hyphens=False)
    )


def _section(entries: Iterable[str], hanging: str = "    ") -> str:
    return "\n".join(_filled(entry, WIDTH - 12, hanging=hanging) for entry in entries)


class Source:
    """A method of the asyncio face that other forms follow from.

    Attributes:
        name: of the method.
        doc: its docstring.
        signatures: the function with its arguments, and before it those of its overloads.
        function: what it calls, such as `buffers.bcast`.
        arguments: of this call, after the communicator.
    """

    def __init__(self, signatures: list[ast.FunctionDef]) -> None:
        own = signatures[-1]
        self.name, self.signatures = own.name, signatures
        self.doc = Doc.parse(ast.get_docstring(own) or "")
        statement = own.body[-1]
        assert isinstance(statement, ast.Return), f"{self.name} does not return a call"
        owned = statement.value
        assert isinstance(owned, ast.Call), f"{self.name} does not return a call"
        assert ast.unparse(owned.func) == "Owned", f"the request of {self.name} does not belong to its await"
        (call,) = owned.args
        assert isinstance(call, ast.Call), f"{self.name} does not return a call"
        self.call = ast.unparse(call)
        self.is_constructor = ast.unparse(call.func) == "self._made"
        call = call.args[0] if self.is_constructor else call
        assert isinstance(call, ast.Call), f"{self.name} makes no communicator"
        function, core, *arguments = ast.unparse(call.func), *map(ast.unparse, call.args)
        assert core == "self._admitted", f"{self.name} does not begin with self._admitted"
        self.is_of_objects = function.startswith("objects.")
        self.function = function.removesuffix(".using(algorithm)")
        self.has_algorithm = any(argument.arg == "algorithm" for argument in own.args.kwonlyargs)
        self.arguments = arguments[1:] if self.is_of_objects else arguments

    @property
    def result(self) -> str:
        """Annotation of the result of the request."""
        return _result(self.signatures[-1])

    @property
    def parameters(self) -> str:
        """Names of the parameters of the blocking form."""
        return ", ".join(argument.arg for argument in self.signatures[-1].args.args[1:])

    @property
    def standard(self) -> str:
        """Where the standard defines it, such as "section 4.4"."""
        found = _STANDARD.search(self.doc.summary)
        assert found is not None, f"the first sentence of {self.name} names no section of the standard"
        return found[1]


def _result(function: ast.FunctionDef) -> str:
    assert isinstance(function.returns, ast.Subscript)
    return ast.unparse(function.returns.slice)


class Form:
    """A form of the collectives: how its name, signature, docstring and call follow from the source."""

    face = "blocking"
    keeps_algorithm = False

    def suits(self, source: Source) -> bool:
        return True

    def name(self, source: Source) -> str:
        raise NotImplementedError

    def annotation(self, result: str) -> str:
        raise NotImplementedError

    def body(self, source: Source) -> str:
        raise NotImplementedError

    def doc(self, source: Source) -> Doc:
        raise NotImplementedError

    def arguments(self, arguments: ast.arguments) -> ast.arguments:
        arguments = copy.deepcopy(arguments)
        if not self.keeps_algorithm:
            arguments.kwonlyargs, arguments.kw_defaults = [], []
        return arguments

    def render(self, source: Source) -> str:
        """Return the method, and its overloads before it."""
        parts = []
        for function in source.signatures:
            head = f"def {self.name(source)}({ast.unparse(self.arguments(function.args))}) -> "
            head += self.annotation(_result(function)) + ":"
            if function is not source.signatures[-1]:
                parts.append(f"@overload\n{head} ...")
        lines = [head, textwrap.indent(self.doc(source).render(), "    "), textwrap.indent(self.body(source), "    ")]
        return "\n".join([*parts, *lines])

    def _raises(self, source: Source, when: str, *more: str) -> str:
        """Return the section on errors; `when` replaces "awaiting it: "."""
        entries = [entry.replace("awaiting it: ", when) for entry in source.doc.entries("Raises")]
        return _section([entry for entry in entries if self.keeps_algorithm or "algorithm" not in entry] + [*more])

    def _args(self, source: Source) -> list[str]:
        entries = source.doc.entries("Args")
        return [entry for entry in entries if self.keeps_algorithm or not entry.startswith("algorithm:")]

    def _started(self, source: Source) -> str:
        """Return the first sentence of a form that starts the operation."""
        summary = source.doc.summary
        article = "an" if source.name[0].upper() in "AE" else "a"
        return f"Start {article} `{source.name}`: {summary[0].lower()}{summary[1:]}"


class Blocking(Form):
    """`Bcast` of the blocking face, which waits."""

    def suits(self, source: Source) -> bool:
        return source.name not in BY_HAND

    def name(self, source: Source) -> str:
        return source.name

    def annotation(self, result: str) -> str:
        return result

    def body(self, source: Source) -> str:
        entered = f'self._entered("{source.name}({source.parameters})")'
        if source.is_constructor:
            call = f"{source.function}({', '.join([entered, *source.arguments])})"
            return f'return cast("{source.result}", self._made({call}))'
        if source.is_of_objects:
            call = f"{source.function}({', '.join([entered, 'process.codec', *source.arguments])})"
        else:
            call = f"{source.function}.begin({', '.join([entered, *source.arguments])})"
        if source.result == "None":
            return f"self._finish({call})"
        if source.result == "T":
            return f"result: T = self._finish({call})\nreturn result"
        return f"return self._finish({call})"

    def doc(self, source: Source) -> Doc:
        sections = {"Args": _section(self._args(source)), "Raises": self._raises(source, "", BLOCKED)}
        if source.result != "None":
            (returns,) = source.doc.entries("Returns")
            assert returns.startswith(REQUEST), f"Returns of {source.name} does not begin with {REQUEST}"
            returns = returns.removeprefix(REQUEST)
            sections["Returns"] = _section([returns[0].upper() + returns[1:]], "")
        if "Example" in source.doc.sections:
            sections["Example"] = _waiting(source.doc.sections["Example"])
        return Doc(source.doc.summary, source.doc.text, sections)


class Nonblocking(Form):
    """`Ibcast` of the blocking face."""

    def suits(self, source: Source) -> bool:
        return not source.is_of_objects and source.name[0].isupper()

    def name(self, source: Source) -> str:
        return f"I{source.name.lower()}"

    def annotation(self, result: str) -> str:
        return f"Request[{result}]"

    def body(self, source: Source) -> str:
        return f"return Request._denote({source.function}({', '.join(['self._admitted', *source.arguments])}))"

    def doc(self, source: Source) -> Doc:
        request = ["A request; `Wait` or `Test` completes it, and then this rank may use its buffers again."]
        sections = {
            "Args": _section(self._args(source)),
            "Returns": _section(request, ""),
            "Raises": self._raises(source, "completing it: "),
            "Example": _in_two_steps(source, self.name(source), "request.Wait()"),
        }
        return Doc(self._started(source), source.doc.text, sections)


class Kept(Form):
    """`Ibcast` and `ibcast` of the asyncio face, whose request is kept and awaited later."""

    face = "native"
    keeps_algorithm = True

    def name(self, source: Source) -> str:
        return f"{'I' if source.name[0].isupper() else 'i'}{source.name.lower()}"

    def annotation(self, result: str) -> str:
        return f"Request[{result}]"

    def body(self, source: Source) -> str:
        return f"return {source.call}"

    def doc(self, source: Source) -> Doc:
        sections = {
            **source.doc.sections,
            "Args": _section(self._args(source)),
            "Example": _in_two_steps(source, self.name(source), "await request"),
        }
        return Doc(self._started(source), source.doc.text, sections)


class Persistent(Form):
    """`Bcast_init` of the blocking face, which binds the arguments."""

    keeps_algorithm = True
    request = "Prequest[None]"
    start = "request.Start()\nrequest.Wait()"
    returns = "An inactive persistent request; `Start` starts the operation."

    def suits(self, source: Source) -> bool:
        return not source.is_of_objects and source.name[0].isupper()

    def name(self, source: Source) -> str:
        return f"{source.name}_init"

    def annotation(self, result: str) -> str:
        return self.request

    def arguments(self, arguments: ast.arguments) -> ast.arguments:
        arguments = super().arguments(arguments)
        arguments.args.append(ast.arg("info", ast.Name("Info")))
        arguments.defaults.append(ast.Name("INFO_NULL"))
        return arguments

    def _init(self, source: Source) -> str:
        using = ".using(algorithm)" if source.has_algorithm else ""
        return f"{source.function}{using}.init({', '.join(['self._admitted', *source.arguments])})"

    def body(self, source: Source) -> str:
        return f"return Prequest._denote({self._init(source)})"

    def doc(self, source: Source) -> Doc:
        algorithm = [entry for entry in self._args(source) if entry.startswith("algorithm:")]
        others = [entry for entry in self._args(source) if entry not in algorithm]
        sections = {
            "Args": _section([*others, "info: hints, of which none is known.", *algorithm]),
            "Returns": self.returns,
            "Raises": self._raises(source, "completing it: "),
            "Example": _in_two_steps(source, self.name(source), self.start),
        }
        summary = f"Bind the arguments of `{source.name}`; all ranks bind in the same order (MPI-4; {source.standard})."
        return Doc(summary, "", sections)


class NativePersistent(Persistent):
    """`Bcast_init` of the asyncio face."""

    face = "native"
    request = "PersistentRequest[None]"
    start = "request.start()\nawait request"
    returns = "An inactive persistent request; `start` starts the operation, and `await` waits for it."

    def body(self, source: Source) -> str:
        return f"return {self._init(source)}"

    def _raises(self, source: Source, when: str, *more: str) -> str:
        return super()._raises(source, "awaiting it: ", *more)


def _waiting(example: str) -> str:
    """Return the example of the asyncio face for the blocking one."""
    timed, _, rest = example.partition("\n")
    example = textwrap.dedent(rest) if timed.startswith("async with asyncio.timeout") else example
    return example.replace("await ", "").replace("world.", "comm.")


def _in_two_steps(source: Source, name: str, end: str) -> str:
    """Return the example of a form that starts the operation, and the lines that complete it."""
    example = source.doc.sections["Example"]
    timed, _, rest = example.partition("\n")
    if timed.startswith("async with asyncio.timeout"):
        example = textwrap.dedent(rest)
    lines = []
    for line in example.split("\n"):
        found = re.match(rf"(?:(\w+(?:, \w+)*) = )?await (\w+\.){source.name}\b(.*?\))(?: or 0)?(  #.*)?$", line)
        if found is None:
            lines.append(line)
        else:
            lines.append(f"request = {found[2]}{name}{found[3]}{found[4] or ''}")
            lines += [f"{found[1]} = {end}"] if found[1] else end.split("\n")
            if found[1]:
                break
    assert any("request = " in line for line in lines), f"the example of {source.name} does not await it"
    blocking = "await" not in end
    return "\n".join(line.replace("await ", "").replace("world.", "comm.") if blocking else line for line in lines)


@dataclass
class Written:
    """A file that is written, with one class.

    Attributes:
        path: of the file.
        doc: its docstring.
        name: of the class.
        about: docstring of the class.
        forms: files of the asyncio face, and the forms in which the class has their methods.
    """

    path: str
    doc: str
    name: str
    about: str
    forms: list[tuple[str, list[Form]]]

    @property
    def face(self) -> str:
        return self.path.partition("/")[0]

    def text(self) -> str:
        """Return the text that the file has when it is up to date."""
        names = ", ".join(file for file, _ in self.forms)
        lines = [f"# Written by aiompi/face/generate.py from {names}: change that."]
        body = self._class()
        lines += [f'"""{self.doc}"""\n', "from __future__ import annotations\n", *self._imports(body)]
        if re.search(r"\bT\b", body):
            lines.append('\nT = TypeVar("T")')
        return _formatted("\n".join(lines) + f"\n\n\n{body}\n", self.path)

    def _class(self) -> str:
        methods = []
        for file, forms in self.forms:
            for form in forms:
                methods += [form.render(source) for source in sources(file) if form.suits(source)]
        codec = "_codec: Codec\n\n" if any("self._codec" in method for method in methods) else ""
        quoted = f'"""{self.about}"""\n\n__slots__ = ()\n\n'
        return f"class {self.name}(Handle):\n" + textwrap.indent(quoted + codec + "\n\n".join(methods), "    ")

    def _imports(self, body: str) -> Iterator[str]:
        used = {node.id for node in ast.walk(ast.parse(body)) if isinstance(node, ast.Name)}
        used |= {"TypeVar"} & ({"TypeVar"} if "T" in used else set())
        modules = {
            **_MODULES,
            "Request": "aiompi.face.blocking.requests" if self.face == "blocking" else "aiompi.engine",
            "Codec": "aiompi.objects",
        }
        checked = []
        for name in sorted(used & modules.keys()):
            line = f"from {modules[name].format(face=self.face)} import {name}"
            if modules[name] == _COMMUNICATORS:
                checked.append(f"    {line}")
            else:
                yield line
        if checked:
            yield from ("from typing import TYPE_CHECKING", "if TYPE_CHECKING:", *checked)


def sources(file: str) -> list[Source]:
    """Return the public methods of a file of the asyncio face, in their order."""
    tree = ast.parse((FACE / file).read_text("utf-8"))
    found: list[Source] = []
    overloads: list[ast.FunctionDef] = []
    for cls in tree.body:
        for node in cls.body if isinstance(cls, ast.ClassDef) else []:
            if isinstance(node, ast.FunctionDef) and node.name[0] != "_":
                if node.decorator_list:
                    overloads.append(node)
                else:
                    found.append(Source([*overloads, node]))
                    overloads = []
    return found


def _formatted(text: str, path: str) -> str:
    name = str(Path(__file__).parent / path)
    for command in (["check", "--quiet", "--select", "I", "--fix"], ["format", "--quiet"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", name, "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout
    return text


_MOVEMENT: Final = "native/collective/movement.py"
_REDUCTION: Final = "native/collective/reduction.py"
_OBJECTS: Final = "native/collective/objects.py"
_NEIGHBORS: Final = "native/collective/neighborhood.py"
_BOUND: Final = """The collectives on buffers with their arguments bound (MPI-4).

Each run sends what is in the buffers when it starts. All ranks bind collectives in the same order, together with
other collectives, and may start them in any order.
"""
_TOPOLOGY: Final = "The {}collectives with neighbours, in the order of `inedges` and `outedges`."


def _of_buffers(form: Form) -> list[tuple[str, list[Form]]]:
    return [(_MOVEMENT, [form]), (_REDUCTION, [form])]


WRITTEN: Final = [
    Written(
        "native/collective/nonblocking.py",
        "Nonblocking collectives of the asyncio face on buffers (chapter 5 of MPI-3.1).",
        "NonblockingCollectives",
        "The collectives on buffers whose requests are kept, to be awaited later.",
        _of_buffers(Kept()),
    ),
    Written(
        "native/collective/nonblocking_objects.py",
        "Nonblocking collectives of the asyncio face on objects (chapter 5 of MPI-3.1).",
        "NonblockingObjectCollectives",
        "The collectives on objects whose requests are kept, to be awaited later.",
        [(_OBJECTS, [Kept()])],
    ),
    Written(
        "native/collective/persistent.py",
        "Persistent collectives of the asyncio face (MPI-4).",
        "PersistentCollectives",
        _BOUND,
        _of_buffers(NativePersistent()),
    ),
    Written(
        "native/collective/neighborhood_forms.py",
        "Nonblocking and persistent neighbourhood collectives of the asyncio face (chapter 7 of MPI-3.1, MPI-4).",
        "NeighborhoodForms",
        _TOPOLOGY.format("nonblocking and persistent "),
        [(_NEIGHBORS, [Kept(), NativePersistent()])],
    ),
    Written(
        "blocking/collective/buffers.py",
        "Collectives of the blocking face on buffers (chapter 4).",
        "BufferCollectives",
        "The collectives on buffers; each returns when it is complete for this rank.",
        _of_buffers(Blocking()),
    ),
    Written(
        "blocking/collective/nonblocking.py",
        "Nonblocking collectives of the blocking face (chapter 5 of MPI-3.1).",
        "NonblockingCollectives",
        "The collectives on buffers; each starts at once and returns its request.",
        _of_buffers(Nonblocking()),
    ),
    Written(
        "blocking/collective/persistent.py",
        "Persistent collectives of the blocking face (MPI-4).",
        "PersistentCollectives",
        _BOUND,
        _of_buffers(Persistent()),
    ),
    Written(
        "blocking/collective/objects.py",
        "Collectives of the blocking face on Python objects (chapter 4).",
        "ObjectCollectives",
        "The collectives on objects; each returns when it is complete for this rank.",
        [(_OBJECTS, [Blocking()])],
    ),
    Written(
        "blocking/arrangement.py",
        "Constructors of the blocking face that an intracommunicator alone has (chapters 5 and 6).",
        "Arrangement",
        "The constructors that are collective over one group.",
        [("native/arrangement.py", [Blocking()])],
    ),
    Written(
        "blocking/collective/neighborhood.py",
        "Neighbourhood collectives of the blocking face (chapter 7 of MPI-3.1, MPI-4).",
        "NeighborhoodForms",
        _TOPOLOGY.format(""),
        [(_NEIGHBORS, [Blocking(), Nonblocking(), Persistent()])],
    ),
]


def outdated() -> list[Written]:
    """Return the files that do not have the text that they should have."""
    return [written for written in WRITTEN if not _is_up_to_date(written)]


def _is_up_to_date(written: Written) -> bool:
    path = FACE / written.path
    return path.exists() and path.read_text("utf-8") == written.text()


def main(arguments: list[str]) -> int:
    """Write the files, or with --check name those that are not up to date."""
    for written in (files := outdated()):
        print(written.path)
        if "--check" not in arguments:
            (FACE / written.path).write_text(written.text(), "utf-8")
    return int("--check" in arguments and bool(files))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
