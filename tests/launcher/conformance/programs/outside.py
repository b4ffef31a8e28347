"""Runs an archive where neither aiompi nor the tester is installed: `outside.py ARCHIVE ARGUMENT...`"""

import runpy
import sys


class Absent:
    """Keeps the project's installed packages from being found; what is in the archive is found before."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "aiompi" or (name.startswith("aiompi_launcher") and ARCHIVE not in str(path or sys.path[0])):
            raise ModuleNotFoundError(f"{name} is not installed here", name=name)


ARCHIVE = sys.argv[1]
sys.argv = sys.argv[1:]
sys.meta_path.insert(0, Absent())  # type: ignore[arg-type]
runpy.run_path(ARCHIVE, run_name="__main__")
