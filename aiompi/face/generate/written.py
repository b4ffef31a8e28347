"""Files with one class, made of the forms of collectives."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from .collectives import CollectiveForm, sources
from .files import beginning, formatted

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
class Written:
    """A file that is written, with one class.

    Attributes:
        path: path of the file.
        doc: docstring of the file.
        name: name of the class.
        about: docstring of the class.
        forms: pairs of a file of the asyncio face and a list of forms; the class gets each method of the file in each
            of these forms.
    """

    path: str
    doc: str
    name: str
    about: str
    forms: list[tuple[str, list[CollectiveForm]]]

    @property
    def inputs(self) -> tuple[str, ...]:
        """The files from which it is generated."""
        return tuple(file for file, _ in self.forms)

    @property
    def face(self) -> str:
        return self.path.partition("/")[0]

    def text(self) -> str:
        """Return the text that the file has when it is up to date."""
        body = self._class()
        lines = [*beginning(self.inputs, self.doc), *self._imports(body)]
        if re.search(r"\bT\b", body):
            lines.append('\nT = TypeVar("T")')
        return formatted("\n".join(lines) + f"\n\n\n{body}\n", self.path)

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
        used |= {"TypeVar"} if "T" in used else set()
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
