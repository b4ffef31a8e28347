"""Runs the OSU micro-benchmarks in aiompi and other libraries (peers), in turns: `python -m aiompi.bench`.

`benchmarks` defines each benchmark, `peers` the libraries that can run it, and `contenders` the jobs that take turns.
`run` measures. `table` and `plot` show the results. `command` is the command line.
"""
