"""aiompi-impi-tester: test an implementation of IMPI 0.0.

    aiompi-impi-tester list                                     groups and scripts
    aiompi-impi-tester run [options] [-- command...]            run tests, start the implementation under test
    aiompi-impi-tester startup [options] [-- command...]        only the start-up, with its trace
    aiompi-impi-tester serve [options]                          the web page
    aiompi-impi-tester manual                                   all about it, and the protocol of the interpreter
    aiompi-impi-tester interpreter FILE                         write the interpreter, for where aiompi is not installed
    aiompi-impi-tester peer CLIENT HOST:PORT -np N              a simulated implementation, to try the tester with

The command starts one client under test; placeholders in it such as {client}, {address} and {np} are filled in, as the
manual says. Without a command it is aiompi's launcher. Exit status: 0 all passed, 1 a test failed, 2 wrong use, 3
nothing failed but tests are indeterminate.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

from aiompi_launcher.conformance import archive, catalogue, results
from aiompi_launcher.conformance.catalogue import CatalogueError
from aiompi_launcher.conformance.command import TEMPLATE, TemplateError
from aiompi_launcher.conformance.faults import Fallible, fault, names
from aiompi_launcher.conformance.journal import show
from aiompi_launcher.conformance.model.client import Part, ServerError
from aiompi_launcher.conformance.model.universe import StartupProblem
from aiompi_launcher.conformance.peer import Peer
from aiompi_launcher.conformance.results import Result, Verdict
from aiompi_launcher.conformance.runner import Runner
from aiompi_launcher.conformance.session import Limits
from aiompi_launcher.conformance.setup import Setup, SetupError, check_port

FORMATS = {"text": results.as_text, "json": results.as_json, "junit": results.as_junit}


def main(words: list[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    words = sys.argv[1:] if words is None else words
    own, command = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, [])
    options = _parser().parse_args(own)
    actions: dict[str, Callable[[argparse.Namespace, list[str]], int]] = {
        "list": _list,
        "run": _run,
        "startup": _startup,
        "serve": _serve,
        "manual": _manual,
        "interpreter": _interpreter,
        "peer": _peer,
    }
    try:
        return actions[options.action](options, command or list(TEMPLATE))
    except (CatalogueError, SetupError, TemplateError, OSError) as error:
        print(f"aiompi-impi-tester: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="aiompi-impi-tester", description=__doc__, formatter_class=form, allow_abbrev=False
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _selection(actions.add_parser("list", help="list groups and scripts"))
    run = actions.add_parser("run", help="run tests")
    _selection(run)
    startup = actions.add_parser("startup", help="run only the start-up, with its trace")
    for action in (run, startup):
        _job(action)
        action.add_argument("--format", choices=FORMATS, default="text", help="of the results (text)")
        action.add_argument("--output", metavar="FILE", type=Path, help="write results there")
        action.add_argument("-v", "--verbose", action="store_true", help="show what processes print and report")
    _web(actions.add_parser("serve", help="serve the web page"))
    actions.add_parser("manual", help="print the manual")
    interpreter = actions.add_parser("interpreter", help="write the Python interpreter, for a machine without aiompi")
    interpreter.add_argument("file", type=Path, metavar="FILE", help=f"such as {archive.NAME}")
    _simulated(actions.add_parser("peer", help="be a simulated client under test"))
    return parser


def _selection(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--group", action="append", default=[], metavar="GROUP", help="a group of scripts, repeatable")
    parser.add_argument("--test", action="append", default=[], metavar="GROUP/NAME", help="one script, repeatable")
    parser.add_argument("--scripts", type=Path, default=catalogue.SCRIPTS, metavar="DIR", help="where scripts are")


def _job(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--clients", type=int, default=1, help="simulated clients (1)")
    parser.add_argument("--hosts", type=int, default=1, help="hosts of each simulated client (1)")
    parser.add_argument("--procs", type=int, default=2, help="processes of each simulated host (2)")
    parser.add_argument("--first", type=int, default=0, help="client rank of the first simulated client (0)")
    parser.add_argument("--iut-clients", type=int, default=1, help="clients under test (1)")
    parser.add_argument("--iut-procs", type=int, default=2, help="processes of each client under test (2)")
    parser.add_argument("--bind", default="127.0.0.1", metavar="ADDRESS", help="IPv4 address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, default=0, help="port of the IMPI server (any)")
    parser.add_argument("--server", metavar="HOST:PORT", help="use a server that is started elsewhere")
    parser.add_argument("--key", type=int, help="authenticate with this IMPI_AUTH_KEY instead of IMPI_AUTH_NONE")
    parser.add_argument(
        "--startup-limit", type=float, default=60.0, metavar="SECONDS", help="until all have joined (60)"
    )
    parser.add_argument("--quiet-limit", type=float, default=10.0, metavar="SECONDS", help="without a packet (10)")


def _web(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--bind", default="127.0.0.1", metavar="ADDRESS", help="IPv4 address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, default=8080, help="of the page (8080)")
    parser.add_argument("--scripts", type=Path, default=catalogue.SCRIPTS, metavar="DIR", help="where scripts are")


def _simulated(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("client", type=int, help="client rank")
    parser.add_argument("address", metavar="HOST:PORT", help="of the server")
    parser.add_argument("-np", "-n", type=int, default=2, dest="np", help="processes of each host (2)")
    parser.add_argument("--hosts", type=int, default=1, help="hosts (1)")
    parser.add_argument("--key", type=int, help="IMPI_AUTH_KEY instead of IMPI_AUTH_NONE")
    parser.add_argument("--startup-only", action="store_true", help="end after the start-up")
    parser.add_argument("--fault", metavar="NAME", help="be wrong in this way; `list` names the faults that are caught")


def setup_of(options: argparse.Namespace) -> Setup:
    """Return the setup that the options specify.

    Raises:
        SetupError: no job can have these options.
    """
    server = None if options.server is None else endpoint(options.server)
    names = ("clients", "hosts", "procs", "first", "iut_clients", "iut_procs")
    parts = {name: getattr(options, name) for name in names}
    return Setup(**parts, key=options.key, address=options.bind, port=options.port, server=server)


def endpoint(text: str) -> tuple[str, int]:
    """Parse HOST:PORT.

    Raises:
        SetupError: the text is not HOST:PORT.
    """
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise SetupError(f"{text!r} is not HOST:PORT")
    check_port(int(port))
    return host, int(port)


def _list(options: argparse.Namespace, command: list[str]) -> int:
    for script in catalogue.select(catalogue.load(options.scripts), options.group, options.test):
        print(f"{script.name:36} {script.description}")
        print(f"{'':36} {' '.join(script.rules)}; notices {' '.join(script.caught)}")
    return 0


def _run(options: argparse.Namespace, command: list[str]) -> int:
    scripts = catalogue.select(catalogue.load(options.scripts), options.group, options.test)
    done = asyncio.run(_runner(options, command).run(setup_of(options), scripts))
    return _report(options, done)


def _startup(options: argparse.Namespace, command: list[str]) -> int:
    done = asyncio.run(_runner(options, command).startup_only(setup_of(options)))
    for step in (step for result in done for step in result.steps):
        print(f"{step.text}\n    {show(step.data)}" if step.data else step.text, file=sys.stderr)
        for deviation in step.deviations:
            print(f"    {deviation}", file=sys.stderr)
    return _report(options, done)


def _runner(options: argparse.Namespace, command: list[str]) -> Runner:
    def on_result(result: Result) -> None:
        print(f"{result.verdict.name:13} {result.name:36} {result.reason}", file=sys.stderr, flush=True)

    def say(line: str) -> None:
        if options.verbose:
            print(f"              {line}", file=sys.stderr, flush=True)

    if min(options.startup_limit, options.quiet_limit) <= 0:
        raise SetupError("the limits are seconds, more than 0")
    if options.output is not None:
        options.output.touch()  # rather than fail after all tests have been run
    limits = Limits(options.startup_limit, options.quiet_limit)
    return Runner(command, limits, on_result, say)


def _report(options: argparse.Namespace, done: list[Result]) -> int:
    text = FORMATS[options.format](done)
    if options.output is not None:
        options.output.write_text(text, encoding="utf8")
    elif options.format != "text":
        print(text, end="")
    else:
        print(*(results.details(r) for r in done if r.verdict is not Verdict.PASS or r.deviations), sep="", end="")
        print(results.summary(done))
    if any(result.verdict is Verdict.FAIL for result in done):
        return 1
    return 3 if any(result.verdict is Verdict.INDETERMINATE for result in done) else 0


def _peer(options: argparse.Namespace, command: list[str]) -> int:
    if options.fault is not None and options.fault not in names():
        raise SetupError(f"there is no fault {options.fault}; there are {', '.join(names())}")
    addresses = tuple(f"127.0.0.{200 + options.client * 4 + host}" for host in range(options.hosts))
    mischief = Fallible(fault(options.fault)) if options.fault else None
    peer = Peer(Part(options.client, addresses, options.np, options.key), mischief, print)
    host, port = endpoint(options.address)
    try:
        asyncio.run(peer.run(host, port, startup_only=options.startup_only))
    except (ServerError, StartupProblem, OSError) as error:
        print(f"aiompi-impi-tester: {error}", file=sys.stderr)
        return 1
    return 0


def _manual(options: argparse.Namespace, command: list[str]) -> int:
    print(catalogue.MANUAL.read_text(encoding="utf8"), end="")
    return 0


def _interpreter(options: argparse.Namespace, command: list[str]) -> int:
    options.file.write_bytes(archive.interpreter())
    return 0


def _serve(options: argparse.Namespace, command: list[str]) -> int:
    try:
        from aiompi_launcher.conformance.web.app import serve  # for this command only
    except ImportError as error:
        print(f"aiompi-impi-tester: {error}: install the extra `tester`, pip install 'aiompi[tester]'", file=sys.stderr)
        return 2
    Setup(address=options.bind, port=options.port)
    catalogue.load(options.scripts)
    return serve(options.bind, options.port, options.scripts)


if __name__ == "__main__":
    sys.exit(main())
