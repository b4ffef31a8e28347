"""`python -m aiompi_launcher` is aiompi-launch."""

import sys

from aiompi_launcher.cli import main

sys.exit(main())
