"""`python -m aiompi.trace DIR` writes the report on a trace, and DIR/trace.json for Perfetto."""

from __future__ import annotations

import argparse
import os
import sys

from aiompi.errors import InvalidArgumentError
from aiompi.trace import perfetto, report
from aiompi.trace.reading import read


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="python -m aiompi.trace",
        description="Report where the ranks of a trace waited, and for whom; write DIR/trace.json for ui.perfetto.dev.",
    )
    parser.add_argument("directory", metavar="DIR", help="directory of aiompi-launch --trace DIR")
    directory = parser.parse_args().directory
    try:
        trace = read(directory)
    except InvalidArgumentError as error:
        parser.error(str(error))
    sys.stdout.write(report.text(trace))
    with open(os.path.join(directory, "trace.json"), "w", encoding="utf-8") as file:
        perfetto.write(trace, file)


if __name__ == "__main__":
    main()
