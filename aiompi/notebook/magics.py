"""`%aiompi` starts and ends ranks. `%%mpi` above a cell lets the ranks run the cell."""

from __future__ import annotations

import argparse
import atexit
import shlex
import sys
from types import FrameType
from typing import Any, NoReturn

from IPython.core.display_functions import publish_display_data
from IPython.core.error import UsageError
from IPython.core.magic import Magics as IPythonMagics
from IPython.core.magic import cell_magic, line_magic, magics_class

from aiompi.base.words import ranks_text
from aiompi.errors import InvalidArgumentError, LocalProtocolError
from aiompi.notebook.cell import Caution, Event, Failure, Result, Unfinished
from aiompi.notebook.job import RanksError
from aiompi.notebook.protocol import Raised, Run
from aiompi.notebook.ranks import Ranks, print_event, ranks_for


class _Parser(argparse.ArgumentParser):
    """Reads the line of a magic; a mistake in the line is a UsageError, which IPython shows in one line."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {message}; {self.prog.split()[0]}? tells more")

    def words(self, line: str) -> argparse.Namespace:
        """Return the arguments in a line."""
        try:
            return self.parse_args(shlex.split(line))
        except (ValueError, argparse.ArgumentError) as error:
            self.error(str(error))


def _ranks(text: str) -> list[int]:
    """Return the ranks in a text such as "0,2-3"."""
    try:
        parts = [[int(end) for end in part.split("-")] for part in text.split(",")]
        return [rank for first, *last in parts for rank in range(first, (last or [first])[0] + 1)]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} are no ranks, such as 0,2-3") from None


def _commands() -> _Parser:
    parser = _Parser(prog="%aiompi", add_help=False, exit_on_error=False)
    commands = parser.add_subparsers(dest="command", required=True, parser_class=_Parser)
    start = commands.add_parser("start", add_help=False)
    start.add_argument("count", type=int)
    start.add_argument("--mpi4py", action="store_true")
    start.add_argument("options", nargs=argparse.REMAINDER).required = False
    for name in ("status", "interrupt", "restart", "stop"):
        commands.add_parser(name, add_help=False)
    push = commands.add_parser("push", add_help=False)
    push.add_argument("names", nargs="+")
    pull = commands.add_parser("pull", add_help=False)
    pull.add_argument("names", nargs="+")
    for moving in (push, pull):
        moving.add_argument("--ranks", type=_ranks)
    return parser


def _cell() -> _Parser:
    parser = _Parser(prog="%%mpi", add_help=False, exit_on_error=False)
    parser.add_argument("--ranks", type=_ranks)
    parser.add_argument("--limit", type=float)
    return parser


@magics_class
class Magics(IPythonMagics):
    """The ranks of this notebook, and the commands for them."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self._shell: Any = shell
        self._of_notebook: Ranks | None = None
        atexit.register(self.end)

    def end(self) -> None:
        """End the ranks, if there are any."""
        ranks, self._of_notebook = self._of_notebook, None
        if ranks is not None:
            ranks.stop_now()

    @property
    def _started(self) -> Ranks:
        if self._of_notebook is None:
            raise UsageError("there are no ranks: start some, as in %aiompi start 4")
        return self._of_notebook

    @line_magic
    def aiompi(self, line: str) -> Ranks | None:
        """Start and end ranks, and exchange variables with them.

        %aiompi start 4               four ranks of the asyncio face; more options of aiompi-launch may follow
        %aiompi start 4 --mpi4py      ranks of the blocking face, for which `from mpi4py import MPI` works
        %aiompi push a b              copy variables of the notebook to all ranks, or to --ranks 0,2-3
        %aiompi pull a b              set variables of the notebook to lists of the values at all ranks
        %aiompi status                what the ranks are doing
        %aiompi interrupt             interrupt the cell that the ranks are running, as the interrupt button does
        %aiompi restart               end the ranks, whatever they are doing, and start the same number of new ranks
        %aiompi stop                  end the ranks

        The result of start and status is an `aiompi.notebook.Ranks`, whose methods are awaited.
        """
        args = _commands().words(line)
        try:
            return self._carry_out(args)
        except (RanksError, LocalProtocolError, InvalidArgumentError, TypeError) as error:
            raise UsageError(str(error)) from None

    def _carry_out(self, args: argparse.Namespace) -> Ranks | None:
        match args.command:
            case "start":
                if args.count < 1:
                    raise UsageError(f"%aiompi start {args.count}: a number of ranks from 1 on")
                self.end()
                ranks = ranks_for(args.count, args.options, blocking=args.mpi4py)
                ranks.start_now()
                self._of_notebook = ranks
                return ranks
            case "status":
                return self._started
            case "interrupt":
                self._started.interrupt()
            case "restart":
                self._started.restart_now()
            case "stop":
                self.end()
            case "push":
                absent = [name for name in args.names if name not in self._shell.user_ns]
                if absent:
                    raise UsageError(f"%aiompi push: the notebook has no variable {', '.join(absent)}")
                self._started.push_now({name: self._shell.user_ns[name] for name in args.names}, args.ranks)
            case "pull":
                self._shell.push({name: self._started.pull_now(name, args.ranks) for name in args.names})
        return None

    def _number(self) -> int:
        """Return the number of the cell that runs; the counter of IPython may be ahead of it."""
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            name = self._shell.compile.format_code_name(frame.f_code.co_filename)
            if name is not None and name[1].startswith("In["):
                return int(name[1][3:-1])
            frame = frame.f_back
        return 0

    @cell_magic
    def mpi(self, line: str, cell: str) -> None:
        """Let ranks run the cell.

        %%mpi                         all ranks
        %%mpi --ranks 0,2-3           only ranks 0, 2 and 3
        %%mpi --limit 10              all ranks, and interrupt the cell after ten seconds

        In a cell, ranks find `comm`, a communicator of all ranks, and the variables of earlier cells. Ranks of the
        asyncio face can await. The output of each rank is shown with its rank. Interrupting the cell interrupts the
        ranks.
        """
        args = _cell().words(line)
        screen = _Screen()
        # With a first line the numbers of lines are those of the notebook. A magic for the ranks must be first itself.
        head = "" if cell.startswith("%%") else f"# %%mpi {line}".rstrip() + "\n"
        try:
            run = Run(head + cell, self._number())
            self._started.run_now(run, args.ranks, args.limit, screen.show)
        except KeyboardInterrupt as error:
            # IPython's way to show another traceback, because the lines of the cell in which the ranks were are shown
            # above.
            error._render_traceback_ = lambda: ["KeyboardInterrupt"]  # type: ignore[attr-defined]
            raise
        except (RanksError, LocalProtocolError, InvalidArgumentError, TimeoutError) as error:
            screen.end()
            raise UsageError(str(error)) from None
        finally:
            screen.end()


class _Screen:
    """Shows events of a cell below it.

    Ranks that raise the same exception share one traceback. A warning is shown at once, with the first rank that has
    it. Other ranks with the same warning are shown at the end.
    """

    def __init__(self) -> None:
        self._raised: dict[tuple[str, str], tuple[list[int], Raised]] = {}
        self._warned: dict[str, list[int]] = {}

    def show(self, event: Event) -> None:
        """Show an event."""
        if isinstance(event, Failure):
            traceback = "\n".join(event.raised.traceback)
            same = self._raised.setdefault((event.raised.text, traceback), ([], event.raised))
            same[0].append(event.rank)
        elif isinstance(event, Result) and {*event.shown.data} - {"text/plain"}:
            print(f"[{event.rank}]")
            publish_display_data(event.shown.data, event.shown.metadata)  # type: ignore[no-untyped-call]
        elif isinstance(event, Caution) and event.text in self._warned:
            self._warned[event.text].append(event.rank)
        else:
            if isinstance(event, Caution):
                self._warned[event.text] = []
            elif isinstance(event, Unfinished):
                self.end()
            print_event(event)

    def end(self) -> None:
        """Show which other ranks had the shown warnings, and show the exceptions that have not been shown."""
        for text, others in self._warned.items():
            if others:
                print(f"{ranks_text(others)}, too: {text.partition(chr(10))[0]}", file=sys.stderr)
        self._warned.clear()
        raised, self._raised = self._raised, {}
        for ranks, first in raised.values():
            traceback = "\n".join(first.traceback)
            print(f"\n{ranks_text(ranks)}:\n{traceback}")
