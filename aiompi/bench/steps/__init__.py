"""`python -m aiompi.bench steps`: where the time of a message between two ranks of this machine goes.

`command` asks two ranks of the blocking face, in which `measure.steps` takes the way of a message to pieces, and prints
what they answer.
"""
