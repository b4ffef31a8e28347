"""The plan of a job on several hosts, and the archive of its files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from aiompi_launcher.hosts import messages
from aiompi_launcher.hosts.messages import Plan
from aiompi_launcher.spec import HostsSpec, RunSpec
from aiompi_launcher.start.python import python_of

#: variables that differ from host to host
_OF_THE_HOST: Final = (
    "HOME", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "HOST", "TMPDIR", "MAIL", "DISPLAY", "XAUTHORITY", "XDG_",
    "DBUS_", "SSH_", "SLURM_", "SLURMD_", "PMI_", "PMIX_",
)  # fmt: skip


def archive(files: Sequence[str], path: str) -> str:
    """Write files and directories to a new archive; return its path.

    Files inside the working directory keep their relative paths; other files keep only their base names.

    Raises:
        OSError: a file does not exist, or the disk is full, for example.
    """
    import tarfile  # seldom needed

    try:
        with tarfile.open(path, "x") as archive:
            for file in files:
                relative = os.path.relpath(file)
                below = relative.split(os.sep)[0] != os.pardir
                archive.add(file, relative if below else os.path.basename(os.path.abspath(file)))
    except OSError as error:
        if error.filename is None:  # the error is not about a file
            said = f"the files of --preload cannot be stored: {error.strerror}"
            raise OSError(error.errno, said, os.path.dirname(path)) from None
        raise
    return path


def plan_of(spec: RunSpec, hosts: HostsSpec, name: str, key: bytes, heartbeat: float, silence: float) -> Plan:
    """Return the plan of a job on several hosts."""
    program_of = [number for number, program in enumerate(spec.programs) for _ in range(program.size)]
    parts = [
        messages.Part(host=index, name=host, ranks=list(ranks), programs=[program_of[rank] for rank in ranks])
        for index, (host, ranks) in enumerate(zip(hosts.names, hosts.ranks, strict=True))
    ]
    programs = [[list(p.argv), p.directory, dict(p.environ), p.mpi4py] for p in spec.programs]
    return Plan(
        name=name,
        key=key,
        size=spec.size,
        parts=parts,
        programs=programs,
        directory=os.getcwd(),
        environ={name: value for name, value in os.environ.items() if not name.startswith(_OF_THE_HOST)},
        prefork=spec.prefork and any(map(python_of, spec.programs)),
        bind_to=spec.bind_to,
        stdin=-1 if spec.stdin_rank is None else spec.stdin_rank,
        files=bool(hosts.files),
        starter=list(hosts.starter),
        width=hosts.width,
        patience=hosts.patience,
        heartbeat=heartbeat,
        silence=silence,
    )
