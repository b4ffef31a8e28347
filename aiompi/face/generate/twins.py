"""Twins: modules of the blocking face that are generated from the module of the same name of the asyncio face.

For each twin, `generate/blocking` has the parts that are written by hand: imports, bases, private methods, and public
methods that the asyncio face does not have. Each class of a twin gets the public methods of the asyncio class of the
same name, with their signatures and docstrings adapted to the blocking face. The return type of the asyncio method
decides the body:

    AwaitableCall[T]         the call waits and returns T: `return AwaitableCall(x)` is `return self._finish(x)`, and
                             if `x` is `self._made(...)`, `made: T = self._finish(x)` and `return made`
    AwaitableCall[Status]    the call fills its argument `status` and returns None; if the asyncio face has no
                             such argument, `return AwaitableCall(x)` is `self._access(x, status)`
    Request[T]               the call starts the operation: `return x` is `return Request._denote(x)`
    PersistentRequest[T]     likewise, with `Prequest`
    anything else            the body is unchanged

The parts may define a method that the asyncio face has as well. The body of that method then replaces the body by the
rules, unless it is `...`. The method may also replace types of arguments, entries of the docstring (a first sentence
`...` keeps the first sentence), and the result type. A method of the parts whose docstring begins with "Start `Put`" is
derived from `Put` in the same way. A function of the parts is derived from the asyncio method of the same name.
Coroutines and properties are written by hand in the parts.
"""

from __future__ import annotations

import ast
import copy
import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeGuard

from .docstring import BLOCKED, Doc, section, waiting
from .files import beginning, formatted, read

_FILLED: Final = "filled with the number of bytes that were read or written; its `Get_count` converts it to elements."
_STARTED: Final = "A request; `Wait` or `Test` completes it."
#: words of the asyncio face on the request of a call that starts an operation
_AWAITED: Final = ", whose request is kept and awaited later"
#: beginning of the first sentence of a method that starts the operation of another method
_STARTS: Final = re.compile(r"Start (?:an? )?`(\w+)`")


class Module:
    """A module as text and tree.

    Attributes:
        lines: lines of the text.
        tree: syntax tree of the text.
    """

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()
        self.tree = ast.parse(text)
        self.doc = ast.get_docstring(self.tree) or ""

    def source(self, node: ast.stmt) -> str:
        """Return the text of a statement, with its decorators and the comment before it."""
        return textwrap.dedent("\n".join([*self.comment(node), *self.lines[_first(node) - 1 : node.end_lineno]]))

    def comment(self, node: ast.stmt) -> list[str]:
        """Return the lines of the comment before a statement."""
        start = end = _first(node) - 1
        while self.lines[start - 1].lstrip().startswith("#") or (start == end and not self.lines[start - 1]):
            start -= 1
        return self.lines[start:end] if self.lines[start].lstrip().startswith("#") else []

    def body(self, function: ast.FunctionDef) -> str:
        """Return the text of the statements after the docstring."""
        statements = function.body[1:] if ast.get_docstring(function) is not None else function.body
        if not statements or ast.unparse(statements[0]) == "...":
            return ""
        return textwrap.dedent("\n".join(self.lines[statements[0].lineno - 1 : statements[-1].end_lineno]))

    def classes(self) -> dict[str, ast.ClassDef]:
        """Return the classes by their names."""
        return {node.name: node for node in self.tree.body if isinstance(node, ast.ClassDef)}

    def imports(self) -> Iterator[tuple[str, str]]:
        """Yield (name, statement) for each import at the top."""
        for node in self.tree.body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                for alias in node.names:
                    one = copy.copy(node)
                    one.names = [alias]
                    yield alias.asname or alias.name, ast.unparse(one)


def _name(call: Call) -> str:
    return call.name


def _first(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _is_source(node: ast.stmt) -> TypeGuard[ast.FunctionDef]:
    """Return True for a method that the blocking face has as well."""
    if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
        return False
    return all(ast.unparse(decorator) in ("classmethod", "staticmethod") for decorator in node.decorator_list)


@dataclass
class Call:
    """A method of the asyncio face, and the method of the same name in the parts.

    Attributes:
        own: the method of the asyncio face.
        part: the method in the parts; None if the parts do not define the method.
        text: text of the body of `part`.
    """

    own: ast.FunctionDef
    part: ast.FunctionDef | None
    text: str = ""

    @property
    def name(self) -> str:
        return (self.part or self.own).name

    @property
    def kind(self) -> str:
        """Return type: AwaitableCall, Request or PersistentRequest; "" for a call that is the same in both faces."""
        returns = self.own.returns if self.part is None or self.name == self.own.name else self.part.returns
        name = ast.unparse(returns.value) if isinstance(returns, ast.Subscript) else ""
        return name if name in ("AwaitableCall", "Request", "PersistentRequest") else ""

    @property
    def result(self) -> ast.expr:
        """Annotation of the result of the operation."""
        assert isinstance(self.own.returns, ast.Subscript)
        return self.own.returns.slice

    @property
    def returns_status(self) -> bool:
        """True if the result is a status, which the blocking face fills."""
        return self.kind == "AwaitableCall" and ast.unparse(self.result) == "Status"

    @property
    def lacks_status(self) -> bool:
        """True if the asyncio face has no argument for the status."""
        return self.returns_status and all(argument.arg != "status" for argument in self.own.args.args)

    def render(self) -> str:
        """Return the method of the blocking face."""
        decorated = {ast.unparse(one) for each in (self.own, self.part) if each for one in each.decorator_list}
        decorators = "".join(f"@{decorator}\n" for decorator in sorted(decorated))
        head = f"{decorators}def {self.name}({ast.unparse(self._arguments())}) -> {self._annotation()}:"
        body = self.text or "\n".join(map(ast.unparse, self._body()))
        return "\n".join([head, textwrap.indent(self._doc().render(), "    "), textwrap.indent(body, "    ")])

    def _arguments(self) -> ast.arguments:
        """Return the arguments of the part. Types and defaults that the part omits are those of the asyncio face."""
        if self.part is None:
            arguments = copy.deepcopy(self.own.args)
            if self.lacks_status:
                arguments.args.append(ast.arg("status", ast.parse("Status | None", mode="eval").body))
                arguments.defaults.append(ast.Constant(None))
            return arguments
        arguments = copy.deepcopy(self.part.args)
        known = {argument.arg: argument for argument in (*self.own.args.args, *self.own.args.kwonlyargs)}
        defaults, given = _defaults(self.own.args), _defaults(arguments)
        for argument in arguments.args:
            if argument.annotation is None and argument.arg in known:
                argument.annotation = known[argument.arg].annotation
                if argument.arg in defaults:
                    given.setdefault(argument.arg, defaults[argument.arg])
        arguments.defaults = [given[argument.arg] for argument in arguments.args if argument.arg in given]
        return arguments

    def _annotation(self) -> str:
        if self.part is not None and self.part.returns is not None:
            return ast.unparse(self.part.returns)
        if not self.kind:
            return ast.unparse(self.own.returns) if self.own.returns else "None"
        result = "None" if self.returns_status else ast.unparse(self.result)
        return {"AwaitableCall": result, "Request": f"Request[{result}]"}.get(self.kind, f"Prequest[{result}]")

    def _body(self) -> Iterable[ast.stmt]:
        body = copy.deepcopy(self.own.body[1:])
        if not self.kind:
            return body
        parameters = ", ".join(argument.arg for argument in self.own.args.args[1:])
        end = "self._access({}, status)" if self.lacks_status else f"{self.own.args.args[0].arg}._finish({{}})"
        if self.kind == "AwaitableCall":
            rewriting: _Waiting | _Starting = _Waiting(f"{self.name}({parameters})", end, self._annotation())
        else:
            rewriting = _Starting(self.kind)
        changed = [statement for each in body for statement in _listed(rewriting.visit(each))]
        if isinstance(rewriting, _Waiting) and not rewriting.entered and not self.own.decorator_list:
            changed.insert(0, ast.parse(f'self._entered("{rewriting.call}")').body[0])
        last = changed[-1]
        if self._annotation() == "None" and isinstance(last, ast.Return) and last.value is not None:
            changed[-1] = ast.Expr(last.value)
        return changed

    def _doc(self) -> Doc:
        own = Doc.parse(ast.get_docstring(self.own) or "")
        part = Doc.parse((self.part and ast.get_docstring(self.part)) or "")
        if self.lacks_status:
            own.sections["Args"] = own.sections.get("Args", "") + f"\nstatus: {_FILLED}"
        described = {entry.partition(":")[0]: entry for doc in (own, part) for entry in doc.entries("Args")}
        names = [argument.arg for argument in (*self._arguments().args, *self._arguments().kwonlyargs)]
        entries = [entry for entry in described.values() if set(entry.partition(":")[0].split(", ")) & {*names}]
        entries.sort(key=lambda entry: names.index(entry.partition(":")[0].split(", ")[0]))
        sections = {"Args": section(entries), **self._outcome(own)}
        sections |= {heading: text for heading, text in part.sections.items() if heading not in ("Args", "Raises")}
        raises = {"AwaitableCall": "", "": "awaiting it: "}.get(self.kind, "completing it: ")
        errors = [*own.errors(raises), *part.errors(raises)]
        sections["Raises"] = section([*errors, BLOCKED] if self.kind == "AwaitableCall" else errors)
        if self._annotation() == "None":
            sections.pop("Returns", None)
        summary = own.summary.replace(_AWAITED, "") if part.summary in ("", "...") else part.summary
        return Doc(summary, part.text or own.text, sections)

    def _outcome(self, own: Doc) -> dict[str, str]:
        """Return the sections on the result, and the example."""
        sections = {}
        returns = own.returns
        if self.kind == "AwaitableCall":
            returns = own.result or returns
            example = own.sections.get("Example", "")
            sections["Example"] = waiting(
                example.replace("status = await", "await") if self.returns_status else example
            )
        elif self.kind and self._annotation() == ast.unparse(self.result):
            returns = own.result
        elif self.kind and not own.result and not own.returns.startswith("A request that is complete"):
            returns = _STARTED if self.kind == "Request" else "An inactive persistent request; `Start` starts it."
        sections["Returns"] = section([returns.replace(", to be awaited once,", "")], "") if returns else ""
        return sections


def _defaults(arguments: ast.arguments) -> dict[str, ast.expr]:
    """Return the defaults of positional arguments by their names."""
    names = [argument.arg for argument in arguments.args]
    return dict(zip(reversed(names), reversed(arguments.defaults), strict=False))


def _listed(changed: object) -> list[ast.stmt]:
    return changed if isinstance(changed, list) else [changed]  # type: ignore[list-item]


class _Waiting(ast.NodeTransformer):
    """Turns an awaited call into a blocking call.

    Args:
        call: the call in the asyncio face, for messages.
        end: expression that completes an operation `{}`.
        result: annotation of the result.
    """

    def __init__(self, call: str, end: str, result: str) -> None:
        self.call = call
        self._end = end
        self._result = result
        self.entered = False

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if ast.unparse(node) != "self._admitted" or self.entered:
            self.generic_visit(node)
            return node
        self.entered = True
        return ast.parse(f'self._entered("{self.call}")', mode="eval").body

    def visit_Return(self, node: ast.Return) -> ast.stmt | list[ast.stmt]:
        self.generic_visit(node)
        if isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "AwaitableCall":
            finished = self._end.format(ast.unparse(node.value.args[0]))
            node.value = ast.parse(finished, mode="eval").body
            if any(isinstance(each, ast.Attribute) and each.attr == "_made" for each in ast.walk(node.value)):
                return ast.parse(f"made: {self._result} = {finished}\nreturn made").body
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        return node


class _Starting(ast.NodeTransformer):
    """Makes a request of the blocking face of each request that is returned."""

    def __init__(self, kind: str) -> None:
        self._denote = ast.parse(f"{'Request' if kind == 'Request' else 'Prequest'}._denote", mode="eval").body

    def visit_Return(self, node: ast.Return) -> ast.Return:
        assert node.value is not None
        node.value = ast.Call(self._denote, [node.value], [])
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        return node


@dataclass
class Twin:
    """A file that the generator writes from a module of the asyncio face and from parts written by hand.

    Attributes:
        path: of the file, such as "blocking/access.py".
    """

    path: str
    face = "blocking"

    @property
    def source(self) -> str:
        """The module of the asyncio face."""
        return self.path.replace("blocking/", "native/")

    @property
    def inputs(self) -> tuple[str, ...]:
        """The files from which this file is generated."""
        return self.source, f"generate/{self.path}"

    def text(self) -> str:
        """Return the text that the file has when it is up to date."""
        source, parts = map(Module, map(read, self.inputs))
        names = {name for name, _ in parts.imports()}
        head = beginning(self.inputs, f"{parts.doc}\n" if "\n" in parts.doc else parts.doc)
        head += [statement for name, statement in parts.imports() if name != "annotations"]
        head += [statement for name, statement in source.imports() if name not in names and _is_of_both(statement)]
        methods = {each.name: each for cls in source.classes().values() for each in cls.body if _is_source(each)}
        body = []
        for node in parts.tree.body[1:]:
            if isinstance(node, ast.ClassDef):
                body.append(self._class(source, parts, node))
            elif isinstance(node, ast.FunctionDef) and node.name in methods:
                body.append(Call(methods[node.name], node, parts.body(node)).render())
            elif not isinstance(node, ast.Import | ast.ImportFrom):
                together = body and parts.lines[_first(node) - 2]  # no blank line between them
                body[-1:] = [f"{body[-1]}\n{parts.source(node)}"] if together else [*body[-1:], parts.source(node)]
        return formatted("\n".join(head) + "\n\n" + "\n\n".join(body) + "\n", self.path)

    def _class(self, source: Module, parts: Module, node: ast.ClassDef) -> str:
        own = source.classes().get(node.name)
        if own is None:
            return parts.source(node)
        theirs = {each.name: each for each in node.body if isinstance(each, ast.FunctionDef)}
        calls = {
            method.name: Call(method, part := theirs.get(method.name), parts.body(part) if part else "")
            for method in own.body
            if _is_source(method)
        }
        started = [call for part in node.body for call in self._started(parts, part, calls)]
        others = [each for each in node.body if getattr(each, "name", None) not in {*calls, *map(_name, started)}]
        aliases = [each for each in others if isinstance(each, ast.Assign) and ast.unparse(each.value) in calls]
        texts = [parts.source(each) for each in others if each not in aliases]
        for call in calls.values():
            texts.append("\n".join([*map(str.lstrip, source.comment(call.own)), call.render()]))
            texts += [form.render() for form in started if form.own is call.own]
        texts.append("\n".join(map(ast.unparse, aliases)))
        head = "\n".join(parts.lines[_first(node) - 1 : node.body[0].lineno - 1])
        return "\n".join([*parts.comment(node), head, textwrap.indent("\n\n".join(texts), "    ")])

    def _started(self, parts: Module, node: ast.stmt, calls: dict[str, Call]) -> Iterator[Call]:
        """Yield the `Call` of a method of the parts whose docstring begins with "Start `X`", if `calls` has X."""
        if isinstance(node, ast.FunctionDef) and node.name not in calls:
            starts = _STARTS.match(ast.get_docstring(node) or "")
            if starts is not None and starts[1] in calls:
                yield Call(calls[starts[1]].own, node, parts.body(node))


def _is_of_both(statement: str) -> bool:
    """Return True if the blocking face can import this, too."""
    return "face.native" not in statement and statement.rpartition(" ")[2] not in ("Request", "annotations")
