"""Process managers without a store: rank 0 listens at an address that all other ranks know.

`Indexed` is a job described by environment variables: an indexed Job of Kubernetes, or the variables of torchrun and
Kubeflow. `Slurm` is a step of srun without PMI: rank 0 sends the key in a credential of munge to every process that
connects. Only processes of the same user can read the credential.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from aiompi.errors import AuthenticationError, JobAbortedError
from aiompi.job.bootstrap import meeting, munge
from aiompi.job.bootstrap.manager import Place, ProcessManager
from aiompi.job.bootstrap.nodelist import expand
from aiompi.net import interfaces
from aiompi.settings import Settings
from aiompi.wire.hello import new_key, parse_key
from aiompi.wire.variables import ENV_KEY, ENV_KEY_FILE

#: default of MASTER_PORT, as torchrun has it
_MASTER_PORT: Final = 29500
#: ports for a step for which Slurm has reserved none, above the ports that the kernel gives to connections
_FIRST_PORT: Final = 61440
_PORTS: Final = 4096
#: number of ports that a step tries, because other steps may use some of them
_TRIED: Final = 8
_CREDENTIAL: Final = 2**16  # bytes
_DIAL: Final = 5.0  # seconds
_PAUSE: Final = 0.1


class Fixed(ProcessManager):
    """A process manager without a store, which cannot end the processes of a job: each rank ends when the agent ends.

    Attributes:
        host: name or address of the machine of rank 0.
        ports: rank 0 listens at one of them.
    """

    host: str
    ports: list[int]

    def abort(self, code: int, reason: str) -> None:
        """Do nothing: each rank ends when the agent ends."""

    def finalize(self) -> None:
        """Do nothing."""


class Indexed(Fixed):
    """A process of a job described by environment variables.

    Args:
        environ: variables of this process.

    Raises:
        JobAbortedError: a variable is missing or is not a number.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.name = "the indexed job"
        self._environ = environ
        try:
            self.rank = int(environ.get("RANK") or environ["JOB_COMPLETION_INDEX"])
            self.size = int(environ["WORLD_SIZE"])
            self.host = environ["MASTER_ADDR"]
            # Programs of PyTorch use MASTER_PORT itself.
            self.ports = [int(environ.get("MASTER_PORT") or _MASTER_PORT) + 1]
            if not 0 <= self.rank < self.size:
                raise ValueError(f"there is no rank {self.rank} among {self.size} processes")
            if not 1 < self.ports[0] < 2**16:
                raise ValueError(f"the port that follows MASTER_PORT, {self.ports[0]}, is impossible")
        except (KeyError, ValueError) as error:
            raise JobAbortedError(
                "this process is one of an indexed job. Set WORLD_SIZE to the number of its processes, and MASTER_ADDR "
                f"to the name of the host of the first, or AIOMPI_ENGINE=none to run each alone: {error}"
            ) from None

    def meet(self, settings: Settings) -> Place:
        """Become a rank, with the key of AIOMPI_KEY.

        Raises:
            AuthenticationError: there is no key.
            JobAbortedError: rank 0 cannot be reached.
        """
        key = _given_key(self._environ)
        if key is None:
            raise AuthenticationError(
                f"this process is rank {self.rank} of {self.size}, and there is no key: give all of them one {ENV_KEY} "
                f"(64 hexadecimal digits, in Kubernetes from a Secret) or {ENV_KEY_FILE}, or set AIOMPI_ENGINE=none to "
                "run each alone"
            )
        hosts, port = [self.host], settings.ports[0] or self.ports[0]
        if self.rank == 0:
            listener = meeting.listen(settings, [port])
            hosts = meeting.published(listener)
            meeting.start_agent(listener, key, self.size, settings)
        return Place(self, key, meeting.connect(hosts, port, key, self.rank, settings, settings.start_timeout))


class Slurm(Fixed):
    """A process of a step of srun without PMI.

    Args:
        environ: variables of this process.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.name = "srun"
        self._environ = environ
        self.rank = int(environ["SLURM_PROCID"])
        self.size = int(environ.get("SLURM_STEP_NUM_TASKS") or environ["SLURM_NTASKS"])
        self._step = f"{environ.get('SLURM_JOB_ID')}.{environ['SLURM_STEP_ID']}"
        self.host = expand(environ.get("SLURM_STEP_NODELIST") or environ["SLURM_NODELIST"])[0]
        reserved = environ.get("SLURM_STEP_RESV_PORTS")
        self.ports = _reserved(reserved) if reserved else _derived(self._step)

    def meet(self, settings: Settings) -> Place:
        """Become a rank, with the key that rank 0 sends.

        Raises:
            JobAbortedError: rank 0 cannot be reached, or munge cannot be used.
            AuthenticationError: AIOMPI_KEY is no key.
        """
        if self.rank == 0:
            munge.encode(b"")  # to report an error here, and not in the agent
            key, listener = new_key(), meeting.listen(settings, settings.ports)
            hosts, port = meeting.published(listener), listener.getsockname()[1]
            secret = json.dumps({"step": self._step, "key": key.hex(), "hosts": hosts, "port": port})
            anywhere = dataclasses.replace(settings, interface="")  # the other ranks know only the name of this machine
            credential_listener = meeting.listen(anywhere, self.ports)
            meeting.start_agent(listener, key, self.size, settings, credential_listener, secret)
        else:
            found = self._ask(time.monotonic() + settings.start_timeout)
            hosts, port, key = found["hosts"], found["port"], bytes.fromhex(found["key"])
        return Place(self, key, meeting.connect(hosts, port, key, self.rank, settings, settings.connect_timeout))

    def _ask(self, deadline: float) -> dict[str, Any]:
        """Return the credential of rank 0. Other steps may have some of the ports."""
        causes: dict[int, str] = {}
        while True:
            for port in self.ports:
                try:
                    found: dict[str, Any] = json.loads(munge.decode(_read_all(self.host, port)))
                    if found["step"] == self._step:
                        return found
                except (OSError, JobAbortedError, AuthenticationError, LookupError, TypeError, ValueError) as error:
                    # Processes of other users may have some of the ports, too, and send anything.
                    causes[port] = f"port {port}: {error}"
            if time.monotonic() > deadline:
                raise JobAbortedError(
                    f"srun started {self.size} processes without PMI, but rank {self.rank} gets no credential of "
                    f"rank 0 on {self.host}; try --mpi=pmi2: {'; '.join(causes.values())}"
                )
            time.sleep(_PAUSE)


def _read_all(host: str, port: int) -> bytes:
    data, deadline = bytearray(), time.monotonic() + _DIAL
    with socket.create_connection((interfaces.encoded(host), port), _DIAL) as sock:
        while len(data) < _CREDENTIAL and (piece := sock.recv(_CREDENTIAL)):
            data += piece
            if (left := deadline - time.monotonic()) <= 0:
                raise TimeoutError(f"it has not sent a whole credential within {_DIAL:g} s")
            sock.settimeout(left)
    return bytes(data)


def _reserved(text: str) -> list[int]:
    """Return the ports that Slurm has reserved for a step: "20000-20003,20007"."""
    return [int(port) for port in expand(f"[{text}]")][:_TRIED]


def _derived(step: str) -> list[int]:
    number = int.from_bytes(hashlib.sha256(step.encode()).digest()[:4])
    return [_FIRST_PORT + (number + i) % _PORTS for i in range(_TRIED)]


def _given_key(environ: Mapping[str, str]) -> bytes | None:
    """Return the key that the user has set in the environment; None if the user has set no key.

    Raises:
        AuthenticationError: the key cannot be read.
    """
    text, path = environ.get(ENV_KEY), environ.get(ENV_KEY_FILE)
    if text is None and path is not None:
        try:
            text = Path(path).read_text(encoding="ascii")
        except (OSError, UnicodeError) as error:
            raise AuthenticationError(f"{ENV_KEY_FILE}={path} has no key that can be read: {error}") from None
    return None if text is None else parse_key(text)
