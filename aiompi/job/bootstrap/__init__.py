"""Start of a rank under a process manager other than `aiompi-launch`: Hydra, Slurm, PRRTE, Kubernetes and others.

`find` names the process manager that has started this process, and `join` makes the process a rank. Rank 0 starts the
agent of the job, a process of `aiompi_launcher`. Then all ranks join as if a launcher had started them.

    manager   variables                              store of values   module
    pmi       PMI_FD or PMI_PORT                     PMI-1             pmi
    pmix      PMIX_NAMESPACE                         PMIx              pmix
    slurm     SLURM_STEP_ID, SLURM_PROCID            none              fixed
    indexed   JOB_COMPLETION_INDEX or RANK,          none              fixed
              WORLD_SIZE, MASTER_ADDR

The first manager whose variables are set is used, unless AIOMPI_ENGINE names a manager. The named manager may be an
entry point of the group `aiompi.engines`: a function that takes the environment and returns a `ProcessManager`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from aiompi.errors import InvalidArgumentError, JobAbortedError, MPIError
from aiompi.settings import Settings

if TYPE_CHECKING:
    from aiompi.job.bootstrap.manager import Place, ProcessManager

#: process manager -> variables that are all set in its processes. An sbatch script has SLURM_PROCID, but no step.
SIGNS: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "pmi": (("PMI_FD", "PMI_RANK", "PMI_SIZE"), ("PMI_PORT", "PMI_ID")),
    "pmix": (("PMIX_NAMESPACE", "PMIX_RANK"),),
    "slurm": (("SLURM_STEP_ID", "SLURM_PROCID"),),
    "indexed": (("JOB_COMPLETION_INDEX",), ("RANK", "WORLD_SIZE", "MASTER_ADDR")),
}
NONE: Final = "none"
GROUP: Final = "aiompi.engines"


def find(environ: Mapping[str, str]) -> str:
    """Return the name of the process manager that has started this process; empty if none has started it."""
    return next((name for name in SIGNS if _shows(name, environ)), "")


def _shows(name: str, environ: Mapping[str, str]) -> bool:
    return any(all(variable in environ for variable in variables) for variables in SIGNS[name])


def join(name: str, environ: Mapping[str, str], settings: Settings) -> Place | None:
    """Become a rank of the job of a process manager. Return None if the job has only this process.

    Raises:
        JobAbortedError: the process manager cannot be used, or the others cannot be reached.
        InvalidArgumentError: there is no process manager of this name, or it has not started this process.
    """
    try:
        manager = _manager(name, environ, settings)
        if manager.size == 1:
            manager.finalize()
            return None
        return manager.meet(settings)
    except MPIError:
        raise
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        raise JobAbortedError(
            f"the engine {name} has started this process, but what it or rank 0 says cannot be understood: "
            f"{type(error).__name__}: {error}. AIOMPI_ENGINE=none lets it run alone"
        ) from error


def _manager(name: str, environ: Mapping[str, str], settings: Settings) -> ProcessManager:
    if name in SIGNS and name != "indexed" and not _shows(name, environ):
        variables = " or ".join(map(", ".join, SIGNS[name]))
        raise InvalidArgumentError(
            f"AIOMPI_ENGINE={name}: this engine has not started this process, because it sets {variables}"
        )
    if name == "pmi":
        from aiompi.job.bootstrap.pmi import PMI  # for this process manager only

        return PMI(environ)
    if name == "pmix":
        from aiompi.job.bootstrap.pmix import PMIx  # for this process manager only

        return PMIx(environ, settings.pmix_library)
    if name == "slurm":
        from aiompi.job.bootstrap.fixed import Slurm  # for this process manager only

        return Slurm(environ)
    if name == "indexed":
        from aiompi.job.bootstrap.fixed import Indexed  # for this process manager only

        return Indexed(environ)
    from importlib.metadata import entry_points  # slow

    found = entry_points(group=GROUP, name=name)
    if not found:
        known = ", ".join([*SIGNS, *sorted(entry_points(group=GROUP).names), NONE])
        raise InvalidArgumentError(f"AIOMPI_ENGINE={name}: there is no engine of this name, only {known}")
    manager: ProcessManager = next(iter(found)).load()(environ)
    return manager
