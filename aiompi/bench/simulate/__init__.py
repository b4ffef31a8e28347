"""`python -m aiompi.bench simulate`: the algorithms of the collectives on a simulated network.

The simulation runs the coroutines that serve real calls. `network` steps the coroutines in simulated time, `calls`
gives them contributions that have a length but no content, and `command` prints the predicted times.
"""
