"""`python -m aiompi.trace DIR` writes the report on a trace, and DIR/trace.json for Perfetto; `--top` watches a job."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys

from aiompi.errors import InvalidArgumentError
from aiompi.trace import perfetto, report, top
from aiompi.trace.reading import read


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="python -m aiompi.trace",
        description="Report where ranks waited, and for which ranks; write DIR/trace.json for ui.perfetto.dev.",
    )
    parser.add_argument("directory", metavar="DIR", help="directory of aiompi-launch --trace DIR")
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
    sys.stdout.write(report.text(trace))
    with open(os.path.join(directory, "trace.json"), "w", encoding="utf-8") as file:
        perfetto.write(trace, file)


def watch(parser: argparse.ArgumentParser, directory: str) -> None:
    """Show the live table."""
    try:
        with contextlib.suppress(KeyboardInterrupt):
            top.show(directory)
    except ModuleNotFoundError as error:
        if error.name != "rich":
            raise
        parser.error("--top needs rich, which comes with the extra top of aiompi")


if __name__ == "__main__":
    main()
