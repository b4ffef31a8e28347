"""`python -m aiompi_launcher` is aiompi-launch."""

import gc
import os
import sys

from aiompi_launcher.cli import main

code = main()
if sys.warnoptions:
    gc.collect()  # warns of what is not closed
try:
    sys.stdout.flush()
    sys.stderr.flush()
except (AttributeError, OSError):  # closed, or full: Python says so
    sys.exit(code)
os._exit(code)  # skips the exit of Python, which takes as long as a third of its imports
