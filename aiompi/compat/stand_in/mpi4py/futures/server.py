"""`python -m mpi4py.futures.server`; see `aiompi.futures.server`."""

from aiompi.futures.server import main

if __name__ == "__main__":
    main()
