"""Companions of `aiompi.MPI`, with the names of mpi4py.util."""
