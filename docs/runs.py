"""Draws the pictures of programs that run: `python docs/runs.py [NAME ...]` runs the examples of pages for them.

It needs the extras opentelemetry, trace and test, and curl. Each picture is docs/pages/images/NAME.svg.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import re
import select
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from rich.console import Console, Group, RenderableType
from rich.syntax import Syntax
from rich.text import Text

from aiompi.trace import analysis, pictures
from aiompi.trace.reading import read

PAGES: Final = Path(__file__).parent / "pages"
#: columns and lines of the terminal, and the most seconds until it shows what is to be drawn
_COLUMNS: Final = 100
_LINES: Final = 24
_LIMIT: Final = 300.0
_LAUNCH: Final = (sys.executable, "-m", "aiompi_launcher")
#: a program of which one rank is late at each barrier
_LATE: Final = """\
import time

from aiompi import MPI

world = MPI.COMM_WORLD


def compute(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


for step in range(20):
    world.allgather(bytes(100_000))
    if world.rank == 2:
        compute(3)
    world.Barrier()
"""
#: columns of the longest span
_BAR: Final = 44
#: begins a program whose spans are lines of JSON
_ROW: Final = """\
import json, os


def row(span):
    rank = int(os.environ["AIOMPI_RANK"])
    begin, end, parent = span.start_time, span.end_time, span.parent and span.parent.span_id
    fields = {"name": span.name, "kind": span.kind.name, "rank": rank, "begin": begin, "end": end}
    return json.dumps({**fields, "id": span.context.span_id, "parent": parent}) + "\\n"


"""
#: a table as `aiompi-launch --top` draws it
_TABLE: Final = re.compile(r"\x1b7(.*?)\x1b\[J\x1b8", re.DOTALL)


def blocks(page: str, language: str) -> list[tuple[str, str]]:
    """Return the blocks of a page in a language, each with the comment before it."""
    text = (PAGES / "howto" / page).read_text("utf-8")
    return re.findall(rf"^(?:<!-- ([^\n]*) -->\n)?```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def program(page: str, name: str, directory: str) -> str:
    """Write a program of a page into a directory; return its name."""
    Path(directory, name).write_text(dict(blocks(page, "python"))[f"file: {name}"], "utf-8")
    return name


def screen(name: str, title: str, *parts: RenderableType) -> str:
    """Return what a terminal shows, as SVG, which loads no font from elsewhere."""
    console = Console(record=True, width=_COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Group(*parts))
    svg = console.export_svg(title=title, unique_id=name)
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL).replace("Fira Code, ", "")


def timeline(directory: str) -> str:
    """The trace of a slow program."""
    launch = *_LAUNCH, "-n", "4", "--trace", "slow.trace", program("profiling.md", "slow.py", directory)
    subprocess.run(launch, cwd=directory, check=True)
    trace = read(Path(directory, "slow.trace"))
    return pictures.svg(pictures.timeline(trace, analysis.waitings(trace)))


def top(directory: str) -> str:
    """The live table of a job, once it shows a rank that computes while others wait for it."""
    name = "app.py"
    Path(directory, name).write_text(_LATE, "utf-8")
    shown = in_terminal([*_LAUNCH, "-n", "4", "--top", name], directory, _of_a_late_rank)
    return screen("top", f"aiompi-launch -n 4 --top {name}", Text.from_ansi(shown))


def _of_a_late_rank(table: str) -> bool:
    return len(re.findall("waits [1-9].*Barrier", table)) == 3 and "computes" in table


def in_terminal(command: list[str], directory: str, chosen: Callable[[str], bool]) -> str:
    """Run a command in a terminal until a table that it draws is chosen; return this table."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", _LINES, _COLUMNS, 0, 0))
    environ = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(_COLUMNS), "LINES": str(_LINES)}
    job = subprocess.Popen(command, cwd=directory, stdin=slave, stdout=slave, stderr=slave, env=environ)
    output, deadline = "", time.monotonic() + _LIMIT
    try:
        while time.monotonic() < deadline:
            if select.select([master], [], [], 1.0)[0]:
                output += os.read(master, 65536).decode()
            for table in _TABLE.findall(output):
                if chosen(table):
                    return table.replace("\x1b[K", "").replace("\r", "").strip("\n")
    finally:
        job.terminate()
        job.wait()
    raise TimeoutError(f"no such table within {_LIMIT:.0f} s: {output[-500:]!r}")


def tests(directory: str) -> str:
    """A test that fails on one of three ranks."""
    name = program("tests.md", "test_fails.py", directory)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--color=yes",
        "-p",
        "aiompi.testing",
        "-p",
        "no:cacheprovider",
        name,
    ]
    environ = {**os.environ, "COLUMNS": str(_COLUMNS - 20)}
    done = subprocess.run(command, cwd=directory, env=environ, capture_output=True, text=True, check=False)
    return screen("tests", f"pytest -q {name}", Text.from_ansi(done.stdout.strip()))


def workers(directory: str) -> str:
    """Four workers of uvicorn that share notes and numbers: the commands of the page, one after the other."""
    program("workers.md", "board.py", directory)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    session = blocks("workers.md", "console")[0][1].replace("--workers 2", "--workers 4").replace("8080", port)
    commands = [line[2:] for line in session.splitlines() if line.startswith("$ ")]
    script = [line for each in commands for line in (f"echo {quoted('$ ' + each)}", each)]
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    until = f"until [ \"$(curl -s 127.0.0.1:{port}/counts)\" = '[0,0,0,0]' ]; do sleep 0.2; done"
    script = [
        until if line.startswith("for _ in $(seq 300)") else line for line in script if "$(seq 300)" not in line[:12]
    ]
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)], cwd=directory, env=environ, capture_output=True, text=True, check=False
    )
    lines = [line for line in done.stdout.replace(port, "8080").splitlines() if "$(seq 300)" not in line]
    return screen("workers", "four workers of one service", *map(_styled, lines))


def quoted(text: str) -> str:
    """Return a text as one word of a shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def _styled(line: str) -> Text:
    return Text(line, style="bold" if line.startswith("$ ") else "")


def notebook(directory: str) -> str:
    """Cells that ranks run, and one that a limit of time ends."""
    import nbformat
    from nbclient import NotebookClient

    cells = [text for comment, text in blocks("notebooks.md", "python") if comment == "cell"][:2]
    cells += [blocks("notebooks.md", "ipython")[0][1].replace("--limit 10", "--limit 2")]
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell.strip()) for cell in cells])
    NotebookClient(made, timeout=_LIMIT, allow_errors=True, resources={"metadata": {"path": directory}}).execute()
    parts: list[RenderableType] = []
    for number, cell in enumerate(made.cells, 1):
        parts += [Text(f"In [{number}]:", style="bold blue"), Syntax(cell.source, "python", theme="ansi_dark")]
        parts += [Text(f"Out[{number}]:", style="bold red"), *map(_output, cell.outputs), Text()]
    return screen("notebook", "a notebook with four ranks", *parts)


def _output(output: Any) -> RenderableType:
    if output.output_type == "stream":
        return Text.from_ansi(output.text.rstrip())
    if output.output_type == "error":
        return Text.from_ansi("\n".join(output.traceback))
    return Text.from_ansi(output.data["text/plain"])


def request(directory: str) -> str:
    """The spans of one request at two ranks: when each begins and ends, below the span of which it is a part."""
    name = program("opentelemetry.md", "shop.py", directory)
    path = Path(directory, name)
    text = path.read_text("utf-8").replace("formatter=line", "formatter=row")
    path.write_text(_ROW + text, "utf-8")
    done = subprocess.run([*_LAUNCH, "-n", "2", name], cwd=directory, check=True, capture_output=True, text=True)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line]
    first, last = min(row["begin"] for row in rows), max(row["end"] for row in rows)
    scale = _BAR / (last - first)
    lines = [Text(f"{'span':30}{'kind':10}rank", style="bold")]
    for depth, row in _tree(sorted(rows, key=lambda row: row["begin"]), None):
        begin, end = (round((row[name] - first) * scale) for name in ("begin", "end"))
        bar = " " * begin + "█" * max(1, end - begin)
        told = f"{'  ' * depth + row['name']:30}{row['kind'].lower():10}{row['rank']:<6}"
        lines.append(Text.assemble(told, (bar, ("blue", "yellow")[row["rank"]])))
    lines.append(Text(f"{'':46}{'0 ms':{_BAR - 8}}{(last - first) / 1e6:.1f} ms"))
    return screen("request", "one request at two ranks", *lines)


def _tree(rows: list[dict[str, Any]], parent: int | None, depth: int = 0) -> Iterator[tuple[int, dict[str, Any]]]:
    """Return spans with their depths, each after the span of which it is a part."""
    for row in rows:
        if row["parent"] == parent:
            yield depth, row
            yield from _tree(rows, row["id"], depth + 1)


DRAWN: Final = {each.__name__: each for each in (timeline, top, tests, workers, notebook, request)}


def main() -> None:
    """Draw the pictures that are named, or all."""
    for name in sys.argv[1:] or DRAWN:
        with tempfile.TemporaryDirectory() as directory:
            (PAGES / f"images/{name}.svg").write_text(DRAWN[name](directory), "utf-8")


if __name__ == "__main__":
    main()
