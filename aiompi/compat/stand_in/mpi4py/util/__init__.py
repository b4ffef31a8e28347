"""Additions to MPI that aiompi has built in."""
