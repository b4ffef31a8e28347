"""`python -m aiompi.bench tune`: measure the algorithms of the collectives on this machine, and make tuning data.

`rules` makes them out of times, `command` measures, and writes them in the form of `aiompi/coll/tuning.json`.
"""
