"""`python -m aiompi.trace DIR` writes the report on a trace, as text and with pictures; `--top` watches a job."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys

from aiompi.errors import InvalidArgumentError
from aiompi.trace import events, page, perfetto, report, top
from aiompi.trace.reading import Trace, read


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="python -m aiompi.trace",
        description="Report where ranks waited, and for which ranks; write DIR/report.html, with pictures, and "
        "DIR/trace.json for ui.perfetto.dev.",
    )
    parser.add_argument("directory", metavar="DIR", help="directory of aiompi-launch --trace DIR")
    parser.add_argument("--csv", metavar="FILE", help="write the events for pipit too: pipit.Trace.from_csv(FILE)")
    parser.add_argument("--top", action="store_true", help="show what the ranks do now, in a table that changes")
    args = parser.parse_args()
    directory = args.directory
    try:
        if args.top:
            watch(parser, directory)
            return
        trace = read(directory)
    except InvalidArgumentError as error:
        parser.error(str(error))
    with open(os.path.join(directory, "trace.json"), "w", encoding="utf-8") as file:
        perfetto.write(trace, file)
    if args.csv is not None:
        with open(args.csv, "w", encoding="utf-8", newline="") as file:
            events.write(trace, file)
    sys.stdout.write(report.text(trace))
    write_page(trace, directory)


def write_page(trace: Trace, directory: str) -> None:
    """Write the report with pictures, if the packages for it are installed."""
    path = os.path.join(directory, "report.html")
    try:
        made = page.html(trace, directory)
    except ModuleNotFoundError as error:
        if error.name not in ("jinja2", "matplotlib"):
            raise
        sys.stderr.write(f"no {path}: it needs {error.name}, which comes with the extra trace of aiompi\n")
        return
    with open(path, "w", encoding="utf-8") as file:
        file.write(made)
    sys.stdout.write(f"\nThe same with pictures: {path}\n")


def watch(parser: argparse.ArgumentParser, directory: str) -> None:
    """Show the live table."""
    try:
        with contextlib.suppress(KeyboardInterrupt):
            top.show(directory)
    except ModuleNotFoundError as error:
        if error.name != "rich":
            raise
        parser.error("--top needs rich, which comes with the extra trace of aiompi")


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # for `| head`
    main()
