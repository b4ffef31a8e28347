"""The OSU micro-benchmarks by their names, of aiompi and of its peers by turns: `python -m aiompi.bench`.

`benchmarks` says what each of them is, `peers` who can run it, `run` measures; `table` and `plot` show the same
results, as `command` is told.
"""
