"""The IMPI conformance tester (IMPI 0.0, chapter 5): `aiompi-impi-tester`.

A test manager with simulated processes, which speaks IMPI to an implementation under test over TCP, looks at each
packet that comes, and runs scripts in all processes. Its codec and its algorithms are its own: it imports nothing of
aiompi, so that a mistake there cannot hide here.
"""
