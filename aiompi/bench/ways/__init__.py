"""`python -m aiompi.bench ways`: what each way of a message between two ranks of this machine is worth.

`command` asks two jobs by turns, of which one lacks the way (`measure.without`), and prints how much longer it takes.
"""
