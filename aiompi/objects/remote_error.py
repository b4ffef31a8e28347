"""Exceptions that travel to another process: the exception itself, and the text of its traceback."""

from __future__ import annotations

import pickle
import traceback


class RemoteTraceback(Exception):
    """The cause of an exception that was raised in another process; its text is the traceback in that process."""

    def __init__(self, trace: str) -> None:
        super().__init__(trace)
        self.trace = trace

    def __str__(self) -> str:
        return f'\n"""\n{self.trace}"""'


def portable(error: BaseException) -> tuple[BaseException, str]:
    """Return an exception that can be pickled, and its traceback.

    The exception loses its traceback, which the text contains: libraries such as tblib would pickle the traceback with
    all objects to which it refers. For an exception that cannot be pickled, a RuntimeError describes it.
    """
    trace = "".join(traceback.format_exception(error))
    error = error.with_traceback(None)
    error.__cause__ = error.__context__ = None
    try:
        pickle.loads(pickle.dumps(error))
    except Exception as obstacle:
        error = RuntimeError(f"{type(error).__name__}: {error} (this exception itself cannot be pickled: {obstacle})")
    return error, trace
