"""Measures aiompi on this machine, beside other libraries and raw floors in the same run: `python -m aiompi.bench`.

A *contender* is a job of ranks, or a pair of processes, that can do the same *works* in its own way: ranks of one of
the faces or of mpi4py, two processes that share a bare socket, a uvloop protocol, a pyzmq socket. The programs in
`measure` run inside the contenders. `osu` and `targets` give contenders turns, one after the other, and compare them:
`osu` runs the OSU micro-benchmarks at any size, and `targets` measures figures that have a target. All know a work by
its name and arguments only:

    {"work": "latency", "nbytes": 8, "iterations": 500, "blocks": 5}

To add a contender, write a module of works in `measure`, name its command in `contender`, and enter it in
`osu.peers`. To add a micro-benchmark, enter it in `osu.benchmarks`; to add a figure, write a module in `targets` and
enter it in `targets.FAMILIES`. A new work goes into each contender's module.
"""
