"""`python -m mpi4py.futures app.py`; see `aiompi.futures.__main__`."""

import sys

from aiompi.futures.__main__ import main

if __name__ == "__main__":
    main(sys.argv[1:])
