"""`python -m aiompi.bench simulate`: the algorithms of the collectives on a simulated network.

The simulation runs the coroutines that serve real calls. `network` steps them in simulated time, `calls` gives them
contributions without content, and `command` prints the predicted times.
"""
