"""Build hook: with AIOMPI_COMPILE=1, mypyc compiles the modules of the message path. Otherwise it does nothing.

The lists of modules are in pyproject.toml.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompileHook(BuildHookInterface[Any]):
    """Adds compiled modules to the wheel. Their sources stay beside them, for tracebacks and tools."""

    PLUGIN_NAME = "custom"

    @property
    def _compiles(self) -> bool:
        return os.environ.get("AIOMPI_COMPILE", "0") not in ("", "0") and self.target_name == "wheel"

    @property
    def _place(self) -> Path:
        return Path(self.directory, "aiompi-compiled").absolute()

    def dependencies(self) -> list[str]:
        """Return what the build needs: mypyc, and the packages whose types it reads."""
        return ["mypy>=2.4", "numpy>=2.0", "setuptools"] if self._compiles else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and add the results to the wheel; an editable install uses the sources as they are."""
        if not self._compiles or version == "editable":
            return
        from mypyc.build import mypycify
        from setuptools import Distribution

        interpreted = set(self.config["interpreted"])
        found = (path.relative_to(self.root) for each in self.config["compiled"] for path in Path(self.root).glob(each))
        modules = sorted(str(path) for path in found if path.name != "__init__.py" and str(path) not in interpreted)
        here = Path.cwd()
        os.chdir(self.root)
        try:
            extensions = mypycify(
                ["--config-file=", "--ignore-missing-imports", *modules],
                opt_level="2",
                debug_level="0",
                group_name="aiompi",
                target_dir=str(self._place / "c"),
            )
            build = Distribution({"ext_modules": extensions}).get_command_obj("build_ext")
            build.build_lib, build.build_temp = str(self._place / "lib"), str(self._place / "objects")
            build.ensure_finalized()
            build.run()
        finally:
            os.chdir(here)
        library = self._place / "lib"
        build_data["force_include"].update({str(so): str(so.relative_to(library)) for so in library.rglob("*.so")})
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what is in the wheel by now."""
        shutil.rmtree(self._place, ignore_errors=True)
