"""Measures aiompi on this machine, beside raw floors in the same run: `python -m aiompi.bench`.

A *contender* is a pair of processes that can do the same *works* in its own way: a job of two ranks in one of the
faces, or two processes that share a bare socket; for collectives, jobs of any number of ranks, of aiompi or mpi4py.
`measure` is what runs inside the contenders; `report` gives them turns, one after the other, and compares. Both sides
know a work by its name and arguments only:

    {"work": "latency", "nbytes": 8, "iterations": 500, "blocks": 5}

To add a contender, write a module of works in `measure` and name its command in `report.contender`. To add a
figure, write a module in `report` and enter it in `report.FAMILIES`; a new work goes into each contender's module.
"""
