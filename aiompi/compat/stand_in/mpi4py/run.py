"""`python -m mpi4py.run app.py`; see `mpi4py.__main__`."""

import sys

from aiompi.compat.__main__ import main

if __name__ == "__main__":
    main(sys.argv[1:])
