"""One job of two IMPI clients on this machine: `python -m aiompi.bench.measure.clients RANKS,RANKS command...`.

Every client runs the command; what is read and written is what the first one reads and writes.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
from typing import Any, Final

from aiompi.bench.contender import LAUNCHER

_PATIENCE: Final = 10.0  # seconds


def main(ranks: str, *command: str) -> int:
    """Run the server and the clients to their ends.

    Args:
        ranks: number of ranks of each client, separated by commas.
        command: what they run.

    Returns:
        The exit code of the first client.
    """
    environ = {**os.environ, "IMPI_AUTH_KEY": str(secrets.randbits(63))}
    counts = ranks.split(",")
    with contextlib.ExitStack() as stack:
        server = _start(stack, ("--server", str(len(counts))), env=environ, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        clients = [
            ("--client", str(client), address, "--bind", f"127.0.0.{client + 1}", "-n", count, *command)
            for client, count in enumerate(counts)
        ]
        for client in clients[1:]:
            _start(stack, client, env=environ, stdin=subprocess.DEVNULL)
        return subprocess.run((*LAUNCHER, *clients[0]), env=environ, check=False).returncode


def _start(stack: contextlib.ExitStack, words: tuple[str, ...], **options: Any) -> subprocess.Popen[Any]:
    process = stack.enter_context(subprocess.Popen((*LAUNCHER, *words), **options))
    stack.callback(_end, process)
    return process


def _end(process: subprocess.Popen[Any]) -> None:
    """It ends by itself, unless the first client never came so far as to be missed."""
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        process.terminate()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
