"""Environment variables by which the launcher tells a rank about its job.

This module is separate from `control`, so that the launcher can start ranks before it imports `control`. The ranks then
import their modules while the launcher imports its own.
"""

from __future__ import annotations

from typing import Final

ENV_CONTROL: Final = "AIOMPI_CONTROL"  # "unix:PATH" or "tcp:HOST:PORT"
ENV_KEY: Final = "AIOMPI_KEY"  # hexadecimal
ENV_KEY_FILE: Final = "AIOMPI_KEY_FILE"  # file with the key, for a rank that no launcher started
ENV_RANK: Final = "AIOMPI_RANK"
ENV_PARENT: Final = "AIOMPI_PARENT"  # port of the processes that have spawned the job
ENV_LIFELINE: Final = "AIOMPI_LIFELINE"  # descriptor whose other end closes with the spawning process
LIFELINE_ONLY: Final = " only"  # follows the descriptor if the launcher reports failures of the job only there
ENV_SPAWN_OPTIONS: Final = "AIOMPI_SPAWN_OPTIONS"  # options of the launcher for the launchers of spawned jobs
ENV_SIZE: Final = "AIOMPI_SIZE"
ENV_APPNUM: Final = "AIOMPI_APPNUM"  # number of the section of the launcher's command line
