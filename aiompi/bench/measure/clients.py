"""One job of two IMPI clients on this machine: `python -m aiompi.bench.measure.clients RANKS,RANKS command...`.

Every client runs the command; what is read and written is what the first one reads and writes.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
from typing import Final

LAUNCHER: Final = (sys.executable, "-m", "aiompi_launcher")


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
        server = stack.enter_context(
            subprocess.Popen((*LAUNCHER, "--server", str(len(counts))), env=environ, stdout=subprocess.PIPE, text=True)
        )
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        lines = [(*LAUNCHER, "--client", str(c), address, "-n", count, *command) for c, count in enumerate(counts)]
        for line in lines[1:]:
            stack.enter_context(subprocess.Popen(line, env=environ, stdin=subprocess.DEVNULL))
        return subprocess.run(lines[0], env=environ, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
