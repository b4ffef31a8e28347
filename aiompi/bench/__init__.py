"""Measures aiompi, other libraries, and lower bounds such as bare sockets, in one run: `python -m aiompi.bench`.

A *contender* is a group of processes to measure: a job of ranks (of a face of aiompi, or of mpi4py), or two processes
that communicate by a bare socket, a uvloop protocol or a pyzmq socket. A *work* is a measurement that each contender
implements in its own way. The programs in `measure` run inside the contenders. `osu` and `targets` run contenders in
turns and compare them: `osu` runs the OSU micro-benchmarks at any size, and `targets` checks measured figures against
target values. All these modules know a work by its name and arguments only:

    {"work": "latency", "nbytes": 8, "iterations": 500, "blocks": 5}

To add a contender, write a module of works in `measure`, name its command in `contender`, and enter this contender in
`osu.peers`. To add a micro-benchmark, enter it in `osu.benchmarks`. To add a figure, write a module in `targets` and
enter the module in `targets.FAMILIES`. A new work goes into each contender's module.
"""
