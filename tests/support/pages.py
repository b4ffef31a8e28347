"""What the documents state: their programs, commands, tables and names.

- A Python block after `<!-- file: NAME -->` is a program; one after `<!-- cell -->` is a cell of a notebook.
- A `console` block is what a reader types after `$` and what the terminal prints. It is run as it is. A prompt such as
  `machine-a$` is a terminal of its own. In the output, `...` stands for anything.
- An `sh` block has commands that are only checked: their options are known, and what they install is there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import re
import shlex
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from .limits import LIMIT

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = sorted((ROOT / "docs/pages").rglob("*.md"))
MANUAL: Final = ROOT / "launcher/aiompi_launcher/conformance/README.md"
DOCUMENTS: Final = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    ROOT / "SECURITY.md",
    MANUAL,
    *PAGES,
]

_BLOCK: Final = re.compile(r"((?:^<!-- [^\n]* -->\n)?)^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PROMPT: Final = re.compile(r"([\w-]*)\$ (.*)")
#: ports that documents name: the tests take free ones, as other tests run at the same time
_PORT: Final = re.compile(r"(?<=:)\d{4,5}\b|(?<=port )\d{4,5}\b|(?<=\", )\d{4,5}\b(?=\)\.start)")
_ELSEWHERE: Final = "192.0.2.10"  # the address of another machine


@dataclasses.dataclass
class Command:
    """A command of a `console` block: the terminal in which it runs, the command, and the lines that it prints."""

    terminal: str
    line: str
    output: list[str]

    @property
    def in_background(self) -> bool:
        return self.line.endswith("&")


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def name_of(path: Path) -> str:
    """Its path in the project."""
    return str(path.relative_to(ROOT))


def blocks(path: Path, language: str) -> Iterator[tuple[str, str]]:
    """The blocks of a language with the comment that stands before them."""
    for comment, found, text in _BLOCK.findall(text_of(path)):
        if found == language:
            yield comment.removeprefix("<!-- ").removesuffix(" -->\n"), text


def programs(path: Path) -> dict[str, str]:
    """The programs of a document by file name."""
    named = (comment.partition("file: ")[::2] for comment, _ in blocks(path, "python"))
    return {name: text for (_, name), (_, text) in zip(named, blocks(path, "python"), strict=True) if name}


def cells(path: Path) -> list[str]:
    return [text for comment, text in blocks(path, "python") if comment == "cell"]


def commands(block: str) -> list[Command]:
    """The commands of a `console` block."""
    found: list[Command] = []
    for line in block.splitlines():
        prompt = _PROMPT.fullmatch(line)
        if prompt:
            found.append(Command(*prompt.groups(), []))
        else:
            found[-1].output.append(line)
    return found


def shell_lines(path: Path) -> Iterator[list[str]]:
    """The commands of the `sh` blocks of a document, in words, without what the shell does with them."""
    for _, text in blocks(path, "sh"):
        for line in text.replace("\\\n", " ").splitlines():
            for part in line.split("&&"):
                words = shlex.split(part, comments=True)
                while words and re.match(r"[A-Z_]+=", words[0]):
                    del words[0]
                yield [word for word in words if word != "&"]


def rows(path: Path, heading: str = "") -> list[list[str]]:
    """Cells of the first table behind a heading, without its head."""
    section = text_of(path).partition(f"\n## {heading}\n")[2] if heading else text_of(path)
    lines = re.search(r"(?:^\|.*\n)+", section, re.MULTILINE)
    assert lines is not None, f"{name_of(path)} has no table {heading}"
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[0].splitlines()[2:]]


def localized(texts: list[str]) -> list[str]:
    """The same texts for this machine: with free ports in place of those that they name."""
    named = sorted({port for text in texts for port in _PORT.findall(text)})
    free = dict(zip(named, map(str, _free_ports(len(named))), strict=True))
    return [_PORT.sub(lambda match: free[match[0]], text).replace(_ELSEWHERE, "127.0.0.1") for text in texts]


def _free_ports(count: int) -> list[int]:
    """Ports that nothing takes meanwhile: the system gives connections other ones."""
    given = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    found: set[int] = set()
    while len(found) < count:
        port = random.randrange(10_000, given) if given > 11_000 else 0
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)) as listener:
            found.add(listener.getsockname()[1])
    return [*found]


def scripts(block: list[Command], directory: Path) -> dict[str, str]:
    """A shell script for each terminal; it waits for what a command in the background has to print first."""
    lines: dict[str, list[str]] = {}
    background: list[Command] = []
    for command in block:
        script = lines.setdefault(command.terminal, [])
        for other in background:
            log = shlex.quote(str(log_of(directory, other.terminal)))
            text = next((line.partition("...")[0] for line in other.output if line.partition("...")[0]), "")
            script.append(
                f"for _ in $(seq {20 * LIMIT:.0f}); do grep -qF {shlex.quote(text)} {log} && break; sleep 0.05; done"
            )
        script.append(command.line)
        if command.in_background:
            background.append(command)
    return {terminal: "\n".join([*script, "wait"]) for terminal, script in lines.items()}


def log_of(directory: Path, terminal: str) -> Path:
    return directory / f"terminal{terminal}.log"


def unlike(printed: str, block: list[Command], terminal: str) -> str:
    """What in the output of a terminal is not as the document has it; the order of lines does not count."""
    left = printed.splitlines()
    expected = [line for command in block if command.terminal == terminal for line in command.output]
    for line in expected:
        if line != "...":
            pattern = ".*".join(map(re.escape, line.split("...")))
            found = next((other for other in left if re.fullmatch(pattern, other)), None)
            if found is None:
                return f"missing: {line}"
            left.remove(found)
    return "" if "..." in expected or not left else f"not in the document: {left[0]}"
