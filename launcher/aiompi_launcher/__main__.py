import sys

from aiompi_launcher.cli import main

sys.exit(main())
