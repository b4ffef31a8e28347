"""Draws the pictures of the documentation: `python docs/drawings.py` writes docs/pages/images/*.svg.

A picture is a list of boxes, labels and arrows. Coordinates are pixels from the upper left corner.
"""

from __future__ import annotations

import dataclasses
import itertools
import tomllib
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

IMAGES: Final = Path(__file__).parent / "pages/images"
FILLS: Final = {
    "rank": "#dbe7ff", "launcher": "#ffe9c7", "memory": "#dff3e0", "outer": "#f6f7fb", "plain": "#ffffff",
    "accent": "#fbdcdc",
}  # fmt: skip
_LAYER_FILLS: Final = ("launcher", "rank", "memory", "accent")  # of units, layer by layer
_LINE: Final = 17  # pixels between two lines of text


@dataclasses.dataclass
class Drawing:
    """A picture under construction."""

    width: int
    height: int
    parts: list[str] = dataclasses.field(default_factory=list)

    def box(
        self, x: int, y: int, width: int, height: int, text: str = "", fill: str = "rank", top: bool = False
    ) -> None:
        """Add a box with text in its middle, or at its top; the first line is bold if there are several."""
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="7" fill="{FILLS[fill]}" stroke="#5a6478"/>'
        )
        lines = text.split("\n")
        first = y + 22 if top else y + height // 2 + 5 - (len(lines) - 1) * _LINE // 2
        for i, line in enumerate(lines):
            bold = ' class="bold"' if i == 0 and (top or len(lines) > 1) else ""
            self._text(x + width // 2, first + i * _LINE, line, f'text-anchor="middle"{bold}')

    def label(self, x: int, y: int, text: str, anchor: str = "middle") -> None:
        """Add lines of small text."""
        for i, line in enumerate(text.split("\n")):
            self._text(x, y + i * 15, line, f'text-anchor="{anchor}" class="small"')

    def arrow(self, *points: tuple[int, int], both: bool = False, dashed: bool = False) -> None:
        """Add an arrow along some points."""
        path = " ".join(f"{x},{y}" for x, y in points)
        start = ' marker-start="url(#head)"' if both else ""
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(f'<polyline points="{path}" class="arrow" marker-end="url(#head)"{start}{dash}/>')

    def _text(self, x: int, y: int, text: str, attributes: str) -> None:
        self.parts.append(f'<text x="{x}" y="{y}" {attributes}>{escape(text)}</text>')

    def svg(self) -> str:
        size = f'viewBox="0 0 {self.width} {self.height}" width="{self.width}" height="{self.height}"'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
                "<style>text { font: 14px sans-serif; fill: #1d2433 }"
                " .bold { font-weight: 600 }"
                " .small { font-size: 12px; fill: #47506a; stroke: #f9fafc; stroke-width: 5px; paint-order: stroke }"
                " .arrow { fill: none; stroke: #47506a; stroke-width: 1.5 }</style>",
                '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8"'
                ' orient="auto-start-reverse"><path d="M0,0 L8,4 L0,8 z" fill="#47506a"/></marker></defs>',
                f'<rect width="{self.width}" height="{self.height}" rx="10" fill="#ffffff"/>',
                *self.parts,
                "</svg>\n",
            ]
        )


def ways_in() -> Drawing:
    """Draw three ways in which processes become ranks."""
    d = Drawing(820, 250)
    for x, title, call in ((15, "launched", "aiompi-launch -n 3"), (285, "joined", "aiompi-launch --serve 3")):
        d.box(x, 15, 250, 220, title, "outer", top=True)
        d.box(x + 20, 50, 210, 40, call, "launcher")
        for i in range(3):
            d.box(x + 20 + i * 75, 150, 60, 42, f"rank {i}")
            points = ((x + 50 + i * 75, 90), (x + 50 + i * 75, 150))
            d.arrow(*(points if title == "launched" else points[::-1]))
    d.label(140, 125, "starts")
    d.label(410, 125, "aiompi.init(address)")
    d.label(140, 217, "each one a process")
    d.label(410, 217, "services that something else has started")
    d.box(555, 15, 250, 220, "in one process", "outer", top=True)
    d.box(575, 50, 210, 40, "aiompi.local_world(3)", "launcher")
    for i in range(3):
        d.box(575 + i * 75, 150, 60, 42, f"rank {i}")
        d.arrow((605 + i * 75, 90), (605 + i * 75, 150))
    d.label(680, 125, "makes")
    d.label(680, 217, "tests and notebooks, one event loop")
    return d


def members() -> Drawing:
    """Draw the worlds of a job whose members come and go."""
    d = Drawing(820, 330)
    d.box(15, 15, 790, 46, "job\naiompi-launch --serve: one address, one key; it knows its members", "launcher")
    worlds = (("generation 1", (1, 2)), ("generation 2", (1, 2, 3)), ("generation 3", (1, 3)))
    for column, (title, there) in enumerate(worlds):
        left = 135 + column * 230
        d.box(left, 95, 190, 185, title, "outer", top=True)
        for number in (1, 2, 3):
            y = 130 + (number - 1) * 50
            if number in there:
                d.box(left + 45, y, 100, 36, f"rank {there.index(number)}")
    for number in (1, 2, 3):
        y = 148 + (number - 1) * 50
        d.label(110, y + 4, f"member {number}", "end")
        first, last = (1 if number == 3 else 0), (1 if number == 2 else 2)
        for column in range(first, last):
            d.arrow((280 + column * 230, y), (410 + column * 230, y))
    d.label(345, 300, "3 joins: world 1\nis outdated")
    d.label(575, 300, "2 is killed: world 2\nis outdated")
    d.label(115, 300, "each awaits\nmember.assemble()", "end")
    return d


def machines() -> Drawing:
    """Draw a job of two machines, whose clients are both aiompi."""
    d = Drawing(780, 300)
    d.box(285, 15, 210, 46, "server\naiompi-launch --server 2", "launcher")
    for x, client, ranks in ((15, 0, (0, 1)), (405, 1, (2, 3, 4))):
        d.box(x, 95, 360, 190, fill="outer")
        d.label(x + (12 if client == 0 else 348), 115, f"machine {'ab'[client]}", "start" if client == 0 else "end")
        d.box(x + 75, 125, 210, 46, f"client {client}\naiompi-launch --client {client}", "launcher")
        d.arrow((x + 180, 125), (390 + (-60, 60)[client], 61), both=True)
        for i, rank in enumerate(ranks):
            left = x + 180 - len(ranks) * 50 + i * 100 + 10
            d.box(left, 225, 80, 42, f"rank {rank}")
            d.arrow((x + 180 + (2 * i - len(ranks) + 1) * 25, 171), (left + 40, 225))
    d.arrow((285, 246), (445, 246), both=True)
    d.label(390, 206, "ranks connect\nby TCP")
    return d


def impi() -> Drawing:
    """Draw the parts of an IMPI job."""
    d = Drawing(780, 320)
    d.box(310, 15, 160, 40, "IMPI server", "launcher")
    for x, title in ((15, "client 0: aiompi"), (415, "client 1: aiompi or another MPI")):
        left = x < 100
        d.box(x, 95, 350, 210, fill="outer")
        d.label(x + (12 if left else 338), 115, title, "start" if left else "end")
        d.box(x + 115, 140, 120, 46, "host\nin the launcher", "launcher")
        d.arrow((x + 175, 140), (390 + (-40 if left else 40), 55), both=True, dashed=True)
        for i in range(3):
            d.box(x + 25 + i * 105, 245, 90, 42, "process")
            d.arrow((x + 135 + i * 40, 186), (x + 70 + i * 105, 245), both=True)
    d.arrow((250, 163), (530, 163), both=True)
    d.label(390, 154, "channel: packets")
    d.label(390, 84, "start-up: labels")
    return d


def layers() -> Drawing:
    """Draw the layers of the package; imports point downwards."""
    rows = tomllib.loads((Path(__file__).parent / "layers.toml").read_text("utf-8"))["layer"][::-1]
    d = Drawing(800, 22 + 57 * len(rows))
    for i, row in enumerate(rows):
        y = 14 + i * 57
        d.box(14, y, 772, 50, fill="outer")
        d.label(28, y + 30, row["name"], "start")
        names = ["aiompi" if unit == "__init__" else unit for unit in row["units"]]
        x = 130
        for text in names if len(names) < 9 else [", ".join(name for name in names if "." not in name)]:
            width = 24 + 8 * len(text)
            d.box(x, y + 8, width, 34, text, _LAYER_FILLS[i % len(_LAYER_FILLS)])
            x += width + 12
    return d


def message() -> Drawing:
    """Draw the life of a message: down through the layers of the sender, up through those of the receiver."""
    d = Drawing(800, 490)
    d.label(175, 28, "rank 0: await world.send(data, dest=1)")
    d.label(625, 28, "rank 1: await world.recv(source=0)")
    sender = (
        (45, "face", "checks arguments, finds the memory"),
        (185, "engine", "makes a request, chooses the protocol"),
        (330, "link to the peer", "header, then pieces of memory"),
    )
    receiver = (
        (45, "face", "returns the object or the status"),
        (140, "driver", "wakes the task or the thread"),
        (235, "engine", "matches; completes the request"),
        (330, "link from the peer", "reads the header, then the payload"),
    )
    for boxes, x, fill in ((sender, 35, "rank"), (receiver, 485, "launcher")):
        for y, title, text in boxes:
            d.box(x, y, 280, 56, f"{title}\n{text}", fill)
        for (y, _, _), (below, _, _) in itertools.pairwise(boxes):
            points = (x + 140, y + 56), (x + 140, below)
            d.arrow(*(points if boxes is sender else points[::-1]))
    d.box(35, 430, 730, 40, "shared memory, a Unix socket, TCP, or the same process", "memory")
    d.arrow((175, 386), (175, 430))
    d.arrow((625, 430), (625, 386))
    d.arrow((485, 263), (400, 263), (400, 213), (315, 213), dashed=True)
    d.label(400, 290, 'credit; for long messages\n"clear to send"')
    return d


def job() -> Drawing:
    """Draw the processes of a job on one machine and their connections."""
    d = Drawing(800, 322)
    d.box(300, 15, 200, 50, "aiompi-launch\nsupervisor and agent", "launcher")
    d.box(30, 15, 170, 50, "watchdog\ncleans up", "plain")
    d.arrow((300, 40), (200, 40), dashed=True)
    d.box(600, 15, 170, 50, "fork server\nstarts the ranks", "plain")
    d.arrow((500, 40), (600, 40), dashed=True)
    for i in range(4):
        x = 30 + i * 200
        d.box(x, 150, 140, 60, f"rank {i}\napp.py")
        d.arrow((340 + i * 40, 65), (x + 70, 150), both=True)
        d.arrow((x + 70, 210), (x + 70, 262), both=True)
    d.label(400, 112, "control socket: key, rank, cards of all ranks, end, output")
    text = "links between ranks, made at the first message: shared memory, Unix sockets or TCP"
    d.box(30, 262, 740, 44, text, "memory")
    return d


def main() -> None:
    """Write all pictures."""
    for name, draw in DRAWINGS.items():
        (IMAGES / f"{name}.svg").write_text(draw().svg(), encoding="utf-8")


DRAWINGS: Final = {
    "ways-in": ways_in,
    "members": members,
    "machines": machines,
    "impi": impi,
    "layers": layers,
    "message": message,
    "job": job,
}

if __name__ == "__main__":
    main()
