"""`mpi4py.MPI` is `aiompi.MPI`, set up by the options of mpi4py."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

import mpi4py
from aiompi import MPI
from aiompi.compat.floats import accept_integral_floats, accepting
from aiompi.constants import THREAD_SINGLE
from aiompi.face.blocking.process import process
from aiompi.settings import THREAD_LEVELS

_FLAGS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
_HANDLERS = {
    "exception": None,
    "default": MPI.ERRORS_ARE_FATAL,
    "fatal": MPI.ERRORS_ARE_FATAL,
    "abort": MPI.ERRORS_ABORT,
}


def _is_flag(value: Any) -> bool:
    return value in (True, False)


_LEGAL: dict[str, Callable[[Any], bool]] = {
    "initialize": _is_flag,
    "threads": _is_flag,
    "thread_level": THREAD_LEVELS.__contains__,
    "finalize": lambda value: value is None or _is_flag(value),
    "fast_reduce": _is_flag,
    "recv_mprobe": _is_flag,
    "irecv_bufsz": lambda value: isinstance(value, int) and value >= 0,
    "errors": _HANDLERS.__contains__,
}


def _options() -> Any:
    """The options, including environment variables such as MPI4PY_RC_THREAD_LEVEL. Invalid values cause a warning."""
    options = getattr(mpi4py, "rc", None) or mpi4py.Rc()
    for name, legal in _LEGAL.items():
        text = os.environ.get(f"MPI4PY_RC_{name.upper()}")
        if text is not None:
            setattr(options, name, int(text) if name == "irecv_bufsz" else _FLAGS.get(text.lower(), text))
        value = getattr(options, name)
        if not legal(value):
            warnings.warn(f"mpi4py.rc.{name}: unexpected value {value!r}", stacklevel=4)
            setattr(options, name, getattr(mpi4py.Rc, name))
    return options


def _set_up() -> None:
    """Initialize, as the import of mpi4py's module does."""
    options = _options()
    for name in ("PROTOCOL", "THRESHOLD"):
        text = os.environ.get(f"MPI4PY_PICKLE_{name}")
        if text is not None:
            setattr(MPI.pickle, name, int(text))
    process.lenient = True
    accept_integral_floats()
    for name in ("Alloc_mem", "Compute_dims"):
        setattr(MPI, name, accepting(getattr(MPI, name)))
    if options.initialize:
        process.start(THREAD_LEVELS.index(options.thread_level) if options.threads else THREAD_SINGLE)
    handler = _HANDLERS[options.errors]
    if handler is not None:
        for comm in (MPI.COMM_WORLD, MPI.COMM_SELF):
            comm.Set_errhandler(handler)


_set_up()
sys.modules[__name__] = MPI
