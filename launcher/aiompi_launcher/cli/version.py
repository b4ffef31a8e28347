"""`--version`."""

from __future__ import annotations

import argparse

import aiompi
from aiompi_launcher.spec import EXIT_FAILURE


class ShowVersion(argparse.Action):
    """Shows the version and the form of the core. Only this option imports the core."""

    def __call__(self, parser: argparse.ArgumentParser, *args: object) -> None:
        try:
            from aiompi import core  # for this option only
        except ImportError as error:
            parser.exit(EXIT_FAILURE, f"aiompi {aiompi.__version__}: {error}\n")
        why = f": {core.why_pure}" if core.why_pure else ""
        print(f"aiompi {aiompi.__version__}, {core.form} core{why}")
        parser.exit()
