"""A rank of the blocking face, in a child process of the Ray actor or Dask worker that is the place of the rank.

The parent is `call_in_process` of `aiompi.integrations.allocation`. A pipe connects both. The function goes to the
child, and its result comes back. The pipe closes when either process ends.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
import threading
import traceback
from multiprocessing.connection import Connection
from typing import Any, NoReturn

import cloudpickle

import aiompi
from aiompi import compat
from aiompi.errors import OtherError
from aiompi.settings import Settings


def main(descriptor: int) -> None:
    """Be a rank: call the function that comes through the pipe, and send back its result or exception."""
    compat.install()
    connection: Connection[Any, Any] = Connection(descriptor)
    message = connection.recv_bytes()
    threading.Thread(target=_end_with, args=[connection], daemon=True).start()
    try:
        settings, call = pickle.loads(message)
        for name in Settings.__dataclass_fields__ if settings else ():
            setattr(aiompi.rc, name, getattr(settings, name))
        result = _call(connection, call)
    except BaseException as error:
        error.add_note("".join(traceback.format_exception(error)))
        _report(connection, None, error)
        raise
    _report(connection, result, None)


def _call(connection: Connection[Any, Any], call: bytes) -> Any:
    from aiompi import MPI  # makes this process a rank, after its settings are set
    from aiompi.face.blocking.process import process

    def ended(code: int) -> NoReturn:
        _report(connection, None, runtime.engine.error)
        runtime.exit(code)

    runtime = process.runtime
    runtime.on_end = ended
    function, args, kwargs = pickle.loads(call)  # an exception here is a failure of the rank
    result = function(MPI.COMM_WORLD, *args, **kwargs)
    if not MPI.Is_finalized():
        MPI.Finalize()
    return result


def _report(connection: Connection[Any, Any], result: Any, error: BaseException | None) -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    try:
        message = cloudpickle.dumps((result, error))
        pickle.loads(message)
    except Exception as failure:
        message = pickle.dumps((None, OtherError(f"{error or result!r} cannot be pickled: {failure!r}")))
    connection.send_bytes(message)


def _end_with(connection: Connection[Any, Any]) -> NoReturn:
    """Wait until the connection closes, because the actor or worker has ended; then end this process."""
    with contextlib.suppress(OSError, EOFError):
        connection.recv_bytes()
    os._exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]))
