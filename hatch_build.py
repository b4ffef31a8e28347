"""Build hook: builds the native core, `aiompi/core/_native`, from Cython and C, where that is possible.

AIOMPI_COMPILE=1 insists on it: a build that is not possible fails, with the reason in one sentence. AIOMPI_COMPILE=0
forbids it. Otherwise the pure form is installed where the native one cannot be built, and `why_pure.txt` beside it says
why. A source distribution carries the generated C. `python hatch_build.py` builds in place, for work on the core.
"""

from __future__ import annotations

import importlib.util
import os
import runpy
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: the sources of the core, and what is made of them, relative to the project
CORE = Path("aiompi", "core")
SOURCES = CORE / "native"
MAIN = SOURCES / "_native.pyx"
REASON = CORE / "why_pure.txt"
FLAGS = ["-O2", "-std=gnu11", "-fvisibility=hidden", "-fno-strict-aliasing", "-fwrapv", "-Wall", "-Wno-unused-function"]
#: the package of pip that is a C compiler
ZIG = "ziglang"
#: what AIOMPI_TARGET may be, with the target for zig, whose libc is the oldest that the tag of the wheel allows. The
#: headers of a CPython for x86-64 serve for ARM64: types have the same sizes there
TARGETS = {
    "x86_64-linux-gnu": ("x86_64-linux-gnu.2.17", "manylinux_2_17_x86_64.manylinux2014_x86_64"),
    "aarch64-linux-gnu": ("aarch64-linux-gnu.2.17", "manylinux_2_17_aarch64.manylinux2014_aarch64"),
    "x86_64-linux-musl": ("x86_64-linux-musl", "musllinux_1_2_x86_64"),
    "aarch64-linux-musl": ("aarch64-linux-musl", "musllinux_1_2_aarch64"),
}


class CannotBuildError(Exception):
    """The native core cannot be built here; the text says why, and what would help."""


def wish() -> str:
    """Return what AIOMPI_COMPILE asks for: "1" to insist, "0" to forbid, "" for native where it can be built."""
    value = os.environ.get("AIOMPI_COMPILE", "")
    if value not in ("", "0", "1"):
        raise CannotBuildError(
            f"AIOMPI_COMPILE is {value!r}: it must be 1 to insist on the native core, or 0 to forbid it"
        )
    return value


def target() -> str:
    """Return what AIOMPI_TARGET names, "" for this machine."""
    value = os.environ.get("AIOMPI_TARGET", "")
    if value and value not in TARGETS:
        raise CannotBuildError(f"AIOMPI_TARGET is {value!r}: it must be one of {', '.join(TARGETS)}")
    return value


def suffix() -> str:
    """Return how the file name of the module ends."""
    if target():
        return f".cpython-{sys.version_info.major}{sys.version_info.minor}-{target()}.so"
    found: str = sysconfig.get_config_var("EXT_SUFFIX")
    return found


def compiler() -> list[str] | None:
    """Return the command of a C compiler; None if there is none."""
    if target():
        zig = [sys.executable, "-m", ZIG, "cc", "-target", TARGETS[target()][0]]
        return zig if importlib.util.find_spec(ZIG) else None
    configured = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    for command in (shlex.split(configured), ["cc"], ["gcc"], ["clang"]):
        if shutil.which(command[0]):
            return command
    return [sys.executable, "-m", ZIG, "cc"] if importlib.util.find_spec(ZIG) else None


def check() -> None:
    """Check what no package of pip brings.

    Raises:
        CannotBuildError: Python.h is missing, or this is no CPython.
    """
    if sys.implementation.name != "cpython":
        raise CannotBuildError(f"the native core is for CPython, and this is {sys.implementation.name}")
    header = Path(sysconfig.get_paths()["include"], "Python.h")
    if not header.exists():
        package = f"python{sys.version_info.major}.{sys.version_info.minor}-dev"
        raise CannotBuildError(
            f"{header} is missing: install the headers of Python (Debian, Ubuntu: apt install {package})"
        )


def generated(root: Path, place: Path) -> Path:
    """Return the C of the core: that of a source distribution, or else made by Cython in `place`."""
    shipped = (root / MAIN).with_suffix(".c")
    if shipped.exists():
        return shipped
    from Cython.Compiler.Main import compile_single
    from Cython.Compiler.Options import CompilationOptions, get_directive_defaults

    made = place / "_native.c"
    directives = {
        **get_directive_defaults(),
        "language_level": 3,
        "boundscheck": True,
        "wraparound": False,
        "nonecheck": True,  # an object may have been made without a call of __init__
        "cdivision": True,
        "binding": True,
        "embedsignature": True,
        "embedsignature.format": "python",
        "always_allow_keywords": True,
        "auto_pickle": False,
        "autotestdict": False,
    }
    options = CompilationOptions(
        output_file=str(made), compiler_directives=directives, include_path=[str(root / SOURCES)]
    )
    result = compile_single(str(root / MAIN), options, "aiompi.core._native")
    if result.num_errors:
        raise CannotBuildError(f"Cython refuses {MAIN} with {result.num_errors} errors")
    return made


def numpy_headers() -> str:
    """Return the folder of NumPy's headers."""
    import numpy

    return numpy.get_include()


def build(root: Path, out: Path) -> Path:
    """Build the extension module in the folder `out`, if it is not there as it would be built, and return it.

    Raises:
        CannotBuildError: that is not possible.
    """
    check()
    command = compiler()
    if command is None:
        raise CannotBuildError(
            f"there is no C compiler: install one (Debian, Ubuntu: apt install gcc) or pip install {ZIG}"
        )
    out.mkdir(parents=True, exist_ok=True)
    module = out / f"_native{suffix()}"
    extra = shlex.split(os.environ.get("CFLAGS", "")), shlex.split(os.environ.get("LDFLAGS", ""))
    built_from = runpy.run_path(str(root / CORE / "sources.py"))["fingerprint"](str(root / SOURCES))
    note = module.with_suffix(".built")
    recipe = "\n".join([str(built_from), Path(__file__).read_text("utf8"), sys.version, *command, *extra[0], *extra[1]])
    if module.exists() and note.exists() and note.read_text("utf8") == recipe:
        return module
    note.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as place:
        source = generated(root, Path(place))
        include = [
            f"-DAIOMPI_SOURCES={built_from}U",
            f"-I{sysconfig.get_paths()['include']}",
            f"-I{numpy_headers()}",
            f"-I{root / SOURCES}",
        ]
        line = [*command, "-shared", "-fPIC", *FLAGS, *include, *extra[0], str(source), "-o", str(module), *extra[1]]
        result = subprocess.run(line, capture_output=True, text=True, check=False)
    if result.returncode:
        first = next((each for each in result.stderr.splitlines() if "error" in each), result.stderr[-300:])
        raise CannotBuildError(f"the C compiler {command[0]} has failed: {first.strip()}")
    note.write_text(recipe, encoding="utf8")
    return module


class CoreHook(BuildHookInterface[Any]):
    """Adds the native core to a wheel, and its C to a source distribution."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Return what the build needs: Cython, and a compiler from pip where the machine has none."""
        try:
            if self.target_name == "sdist":
                return ["cython>=3.1"]
            if wish() == "0":
                return []
            check()
        except CannotBuildError:
            return []  # `initialize` says so
        return ["cython>=3.1", "numpy>=2.0", *([ZIG] if compiler() is None else [])]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the core, for an editable install in place."""
        root = Path(self.root)
        self._place = Path(tempfile.mkdtemp(prefix="aiompi-core-"))
        if self.target_name == "sdist":
            made = generated(root, self._place)
            build_data["force_include"][str(made)] = str(MAIN.with_suffix(".c"))
            return
        try:
            if wish() == "0":
                raise CannotBuildError("it was built with AIOMPI_COMPILE=0, which forbids the native core")
            # in place, so that the sources have the same form as what is installed, but not for another machine
            native = build(root, self._place if target() else root / CORE)
        except CannotBuildError as error:
            if os.environ.get("AIOMPI_COMPILE") not in ("", "0", None):
                self.app.abort(f"aiompi: {error}")
            self._note(root, version, build_data, str(error))
            return
        (root / REASON).unlink(missing_ok=True)
        if version != "editable":
            build_data["force_include"][str(native)] = str(CORE / native.name)
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        if target():
            python = f"cp{sys.version_info.major}{sys.version_info.minor}"
            build_data["tag"] = f"{python}-{python}-{TARGETS[target()][1]}"

    def _note(self, root: Path, version: str, build_data: dict[str, Any], reason: str) -> None:
        """Say why the pure form is installed: now, and in the installation."""
        self.app.display_warning(f"aiompi: the pure form is installed: {reason}")
        note = (root / REASON) if version == "editable" else self._place / REASON.name
        note.write_text(reason + "\n", encoding="utf8")
        if version == "editable":
            for old in (root / CORE).glob("_native*.so"):
                old.unlink()
        else:
            build_data["force_include"][str(note)] = str(REASON)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what is in the distribution by now."""
        shutil.rmtree(self._place, ignore_errors=True)


if __name__ == "__main__":
    here = Path(__file__).parent
    print(build(here, here / CORE))
