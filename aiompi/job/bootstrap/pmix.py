"""PMIx by its C library, for `mpirun` of Open MPI 5, `prterun`, `srun --mpi=pmix`, Flux and others.

The used structures are equal in PMIx 3 to 6.
"""

from __future__ import annotations

import ctypes
import glob
import os
import shutil
from collections.abc import Iterator, Mapping
from ctypes import POINTER, byref, c_bool, c_char, c_char_p, c_size_t, c_uint8, c_uint16, c_uint32
from pathlib import Path
from typing import Any, Final

from aiompi.errors import JobAbortedError
from aiompi.job.bootstrap.meeting import Store

_KEY: Final = 512
_SPACE: Final = 256
#: types of values, and scopes
_BOOL, _STRING, _UINT16, _UINT32 = 1, 3, 13, 14
_GLOBAL: Final = 3
_WILDCARD: Final = 2**32 - 2  # rank
_STARTERS: Final = ("prterun", "mpirun")
#: where a library is, below the directory that has bin/mpirun
_PLACES: Final = ("lib/libpmix.so.2", "lib64/libpmix.so.2", "lib/*/libpmix.so.2", "lib/*/*/lib/libpmix.so.2")


class _Proc(ctypes.Structure):
    _fields_ = (("space", c_char * _SPACE), ("rank", c_uint32))


class _Data(ctypes.Union):
    _fields_ = (
        ("flag", c_bool), ("string", c_char_p), ("uint16", c_uint16), ("uint32", c_uint32), ("all", c_uint8 * 24),
    )  # fmt: skip


class _Value(ctypes.Structure):
    _fields_ = (("type", c_uint16), ("data", _Data))


class _Info(ctypes.Structure):
    _fields_ = (("key", c_char * _KEY), ("flags", c_uint32), ("value", _Value))


class PMIx(Store):
    """A process of a server of PMIx.

    Args:
        environ: variables of this process.
        library: path of libpmix; empty to look for it.

    Raises:
        JobAbortedError: there is no library, or it cannot reach its server.
    """

    def __init__(self, environ: Mapping[str, str], library: str = "") -> None:
        self.name = "srun" if "SLURM_STEP_ID" in environ and "PRTE_LAUNCHED" not in environ else "mpirun"
        self._failure = f"{self.name} started this process, but it cannot use PMIx"
        self._library = self._load(environ, library)
        self._library.PMIx_Error_string.restype = c_char_p
        self._me = _Proc()
        self._call("Init", byref(self._me), None, c_size_t(0))
        self.rank = self._me.rank
        self.size = int(self._get("pmix.job.size", _WILDCARD))

    def _load(self, environ: Mapping[str, str], library: str) -> Any:
        causes = []
        for path in [library] if library else _libraries(environ):
            try:
                return ctypes.CDLL(path)
            except OSError as error:
                causes.append(str(error))
        other = "srun --mpi=pmi2" if self.name == "srun" else "mpiexec of MPICH"
        raise JobAbortedError(
            f"{self._failure}, because libpmix.so.2 cannot be loaded: name it by AIOMPI_PMIX_LIBRARY, or try {other}. "
            + "; ".join(causes)
        )

    def put(self, key: str, value: str) -> None:
        self._call("Put", c_uint8(_GLOBAL), key.encode(), byref(_Value(_STRING, _Data(string=value.encode()))))

    def get(self, key: str, rank: int) -> str:
        return str(self._get(key, rank))

    def fence(self) -> None:
        self._call("Commit")
        # Publish the stored values now. Otherwise a later PMIx_Get may wait for ever.
        collect = _Info(b"pmix.collect", 0, _Value(_BOOL, _Data(flag=True)))
        self._call("Fence", None, c_size_t(0), byref(collect), c_size_t(1))

    def abort(self, code: int, reason: str) -> None:
        self._library.PMIx_Abort(code, reason.encode(), None, c_size_t(0))

    def finalize(self) -> None:
        self._call("Finalize", None, c_size_t(0))

    def _get(self, key: str, rank: int) -> str | int:
        found = POINTER(_Value)()
        self._call("Get", byref(_Proc(self._me.space, rank)), key.encode(), None, c_size_t(0), byref(found))
        value = found.contents
        if value.type == _STRING:
            return bytes(value.data.string).decode()
        return int(value.data.uint16 if value.type == _UINT16 else value.data.uint32)

    def _call(self, name: str, *args: object) -> None:
        status = getattr(self._library, f"PMIx_{name}")(*args)
        if status:
            text = self._library.PMIx_Error_string(status).decode()
            raise JobAbortedError(f"{self._failure}: PMIx_{name} failed: {text} (AIOMPI_ENGINE=none lets it run alone)")


def _libraries(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the libraries to try, best first: those beside the program that has started this process come first."""
    programs = [f"/proc/{os.getppid()}/exe", *(shutil.which(name, path=environ.get("PATH")) for name in _STARTERS)]
    homes = [environ.get("PMIX_PREFIX"), *(Path(program).resolve().parent.parent for program in programs if program)]
    for home in dict.fromkeys(map(str, filter(None, homes))):
        for place in _PLACES:
            yield from sorted(glob.glob(f"{home}/{place}"))
    yield "libpmix.so.2"
