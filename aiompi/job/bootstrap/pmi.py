"""The text protocol PMI-1, which MPICH's Hydra speaks, and Slurm with `srun --mpi=pmi2`.

Each command is a line of the form `cmd=put kvsname=K key=NAME value=TEXT`, and so is each answer. Commands and answers
pass through an inherited socket, whose descriptor is PMI_FD. With `mpiexec -pmi-port` they pass through a connection to
the address PMI_PORT instead, and this process sends its PMI_ID to identify itself.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import time
from collections.abc import Mapping
from typing import Final

from aiompi.errors import JobAbortedError
from aiompi.job.bootstrap.meeting import Store
from aiompi.net import interfaces

_VERSION: Final = (1, 1)
_DIAL: Final = 30.0  # seconds
#: seconds in which Hydra reads the output of processes, before it kills them
_FLUSH: Final = 0.1
_MOST: Final = 2**16  # bytes of an answer
_NUMBER: Final = re.compile("[0-9]{1,9}")
_SHOWN: Final = 80  # characters of it in messages


class PMI(Store):
    """A process of Hydra, or of srun.

    Args:
        environ: variables of this process.

    Raises:
        JobAbortedError: the process manager cannot be reached.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.name = "srun" if "SLURM_STEP_ID" in environ and "PMI_JOBID" in environ else "mpiexec"
        self._buffer = b""
        self._socket: socket.socket | None = None
        self.rank = self.size = 0
        if "PMI_FD" in environ:
            self._place(environ, "PMI_RANK", "PMI_SIZE")
            try:
                self._socket = socket.socket(fileno=os.dup(int(environ["PMI_FD"])))
            except (OSError, ValueError):
                raise self._failure("PMI_FD is no open socket") from None
            self._socket.settimeout(None)
        else:
            self._introduce(environ["PMI_PORT"], environ["PMI_ID"])
        version, subversion = _VERSION
        self._ask(f"cmd=init pmi_version={version} pmi_subversion={subversion}")
        self._space = self._field(self._ask("cmd=get_my_kvsname"), "kvsname")

    def _failure(self, cause: str) -> JobAbortedError:
        if self._socket is not None:
            self._socket.close()
        return JobAbortedError(
            f"{self.name} started {self.size or 'several'} processes, but this one cannot talk to it: {cause}. A "
            "process that a rank starts is no rank itself: set AIOMPI_ENGINE=none for it"
        )

    def _field(self, answer: Mapping[str, str], name: str) -> str:
        if name not in answer:
            raise self._failure(f"its answer {_shown(answer)} has no {name}")
        return answer[name]

    def _place(self, said: Mapping[str, str], rank: str, size: str) -> None:
        """Set `self.rank` and `self.size` from two fields of `said`, which is the environment or an answer."""
        texts = [self._field(said, name) for name in (rank, size)]
        numbers = [int(text) if _NUMBER.fullmatch(text) else -1 for text in texts]
        if not 0 <= numbers[0] < numbers[1]:
            raise self._failure(f"it says that this is rank {texts[0][:_SHOWN]} of {texts[1][:_SHOWN]}")
        self.rank, self.size = numbers

    def _introduce(self, port: str, number: str) -> None:
        """Connect to a port, and get the rank of this process and the number of processes."""
        host, _, service = port.rpartition(":")
        try:
            self._socket = socket.create_connection((interfaces.encoded(host), service), _DIAL)
        except OSError as error:
            raise self._failure(f"PMI_PORT={port}: {error}") from None
        self._socket.settimeout(None)
        answer = self._ask(f"cmd=initack pmiid={number}")
        for _ in ("size", "rank", "debug"):
            answer |= self._answer("initack")
        self._place(answer, "rank", "size")

    def put(self, key: str, value: str) -> None:
        self._ask(f"cmd=put kvsname={self._space} key={key} value={value}")

    def get(self, key: str, rank: int) -> str:
        return self._field(self._ask(f"cmd=get kvsname={self._space} key={key}"), "value")

    def fence(self) -> None:
        self._ask("cmd=barrier_in")

    def abort(self, code: int, reason: str) -> None:
        time.sleep(_FLUSH)
        self._send(f"cmd=abort exitcode={code}")

    def finalize(self) -> None:
        self._ask("cmd=finalize")
        if self._socket is not None:
            self._socket.close()

    def _ask(self, command: str) -> dict[str, str]:
        self._send(command)
        return self._answer(command.split()[0])

    def _answer(self, command: str) -> dict[str, str]:
        assert self._socket is not None
        while b"\n" not in self._buffer:
            data = b""
            with contextlib.suppress(OSError):
                data = self._socket.recv(2**12)
            if not data:
                raise self._failure("the connection has ended")
            self._buffer += data
            if len(self._buffer) > _MOST:
                raise self._failure("it does not speak PMI")
        line, _, self._buffer = self._buffer.partition(b"\n")
        text = line.decode(errors="replace")
        answer = dict(word.partition("=")[::2] for word in text.split())
        if answer.get("rc", "0") != "0":
            raise self._failure(f"{command} failed: {answer.get('msg', text)}")
        return answer

    def _send(self, command: str) -> None:
        assert self._socket is not None
        with contextlib.suppress(OSError):  # the next answer is the end of the connection
            self._socket.sendall(command.encode() + b"\n")


def _shown(answer: Mapping[str, str]) -> str:
    text = " ".join(f"{name}={value}" for name, value in answer.items())
    return repr(text[:_SHOWN])
