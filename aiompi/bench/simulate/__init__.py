"""`python -m aiompi.bench simulate`: the algorithms of the collectives on a network that is only computed.

The coroutines are those that serve calls; `network` steps them in simulated time, `calls` gives them contributions
without content, and `command` prints what each would take.
"""
