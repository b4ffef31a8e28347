"""Draws docs/pages/images/timeline.svg: `python docs/timeline.py` records a trace of the program of the page for it."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from aiompi.trace import analysis, pictures
from aiompi.trace.reading import read

PAGES: Final = Path(__file__).parent / "pages"


def main() -> None:
    """Run the program, and write the picture."""
    page = (PAGES / "howto/profiling.md").read_text("utf-8")
    program = re.search(r"^<!-- file: (slow\.py) -->\n```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert program is not None
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, program[1]).write_text(program[2], "utf-8")
        launch = sys.executable, "-m", "aiompi_launcher", "-n", "4", "--trace", "slow.trace", program[1]
        subprocess.run(launch, cwd=directory, check=True)
        trace = read(Path(directory, "slow.trace"))
    picture = pictures.svg(pictures.timeline(trace, analysis.waitings(trace)))
    (PAGES / "images/timeline.svg").write_text(picture, "utf-8")


if __name__ == "__main__":
    main()
