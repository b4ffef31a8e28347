"""`python -m mpi4py app.py`: run a program; what it does not catch ends the job, as always here."""

import sys

from aiompi.compat.__main__ import main

if __name__ == "__main__":
    main(sys.argv[1:])
