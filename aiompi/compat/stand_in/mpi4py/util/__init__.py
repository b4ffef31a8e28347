"""Additions to MPI: those that aiompi has built in."""
