"""Forms of the collectives and of the constructors: how each form follows from a method of the asyncio face."""

from __future__ import annotations

import ast
import copy
import re
import textwrap
from typing import Final

from .docstring import BLOCKED, Doc, section, waiting
from .files import read

#: calls whose blocking form is written by hand: as in mpi4py, one None may stand for a sequence of None
BY_HAND: Final = {"scatter", "alltoall", "neighbor_alltoall"}

_STANDARD: Final = re.compile(r" \(((?:[^()]*, )?(?:MPI[_-]|section)[^()]*)\)")


class Source:
    """A method of the asyncio face from which other forms are derived.

    Attributes:
        name: name of the method.
        doc: docstring of the method.
        signatures: definitions of the method's overloads, followed by the definition of the method.
        function: name of the function that the method calls, such as `buffers.bcast`.
        arguments: arguments of this call, after the communicator.
    """

    def __init__(self, signatures: list[ast.FunctionDef]) -> None:
        own = signatures[-1]
        self.name, self.signatures = own.name, signatures
        self.doc = Doc.parse(ast.get_docstring(own) or "")
        statement = own.body[-1]
        assert isinstance(statement, ast.Return), f"{self.name} does not return a call"
        result = statement.value
        assert isinstance(result, ast.Call), f"{self.name} does not return a call"
        assert ast.unparse(result.func) == "AwaitableCall", f"the request of {self.name} does not belong to its await"
        (call,) = result.args
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
        """Where the standard defines the method, such as "section 4.4"."""
        found = _STANDARD.search(self.doc.summary)
        assert found is not None, f"the first sentence of {self.name} names no section of the standard"
        return found[1]


def _result(function: ast.FunctionDef) -> str:
    assert isinstance(function.returns, ast.Subscript)
    return ast.unparse(function.returns.slice)


class CollectiveForm:
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
        entries = source.doc.errors(when)
        return section([entry for entry in entries if self.keeps_algorithm or "algorithm" not in entry] + [*more])

    def _args(self, source: Source) -> list[str]:
        entries = source.doc.entries("Args")
        return [entry for entry in entries if self.keeps_algorithm or not entry.startswith("algorithm:")]

    def _started(self, source: Source) -> str:
        """Return the first sentence of a form that starts the operation."""
        summary = source.doc.summary
        article = "an" if source.name[0].upper() in "AE" else "a"
        return f"Start {article} `{source.name}`: {summary[0].lower()}{summary[1:]}"


class Blocking(CollectiveForm):
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
            call = f'self._made({source.function}({", ".join([entered, *source.arguments])}), "{source.name}")'
            return f"made: {source.result} = self._finish({call})\nreturn made"
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
        sections = {"Args": section(self._args(source)), "Raises": self._raises(source, "", BLOCKED)}
        if source.result != "None":
            assert source.doc.result, f"Returns of {source.name} does not name the result of the request"
            sections["Returns"] = section([source.doc.result], "")
        if "Example" in source.doc.sections:
            sections["Example"] = waiting(source.doc.sections["Example"])
        return Doc(source.doc.summary, source.doc.text, sections)


class Nonblocking(CollectiveForm):
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
            "Args": section(self._args(source)),
            "Returns": section(request, ""),
            "Raises": self._raises(source, "completing it: "),
            "Example": _in_two_steps(source, self.name(source), "request.Wait()"),
        }
        return Doc(self._started(source), source.doc.text, sections)


class CollectiveIForm(CollectiveForm):
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
            "Args": section(self._args(source)),
            "Example": _in_two_steps(source, self.name(source), "await request"),
        }
        return Doc(self._started(source), source.doc.text, sections)


class Persistent(CollectiveForm):
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
            "Args": section([*others, "info: hints, of which none is known.", *algorithm]),
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


def _in_two_steps(source: Source, name: str, end: str) -> str:
    """Return the example of a form that only starts the operation; the lines in `end` then complete the operation."""
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


def sources(file: str) -> list[Source]:
    """Return the public methods of a file of the asyncio face, in their order."""
    tree = ast.parse(read(file))
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
