"""The IMPI conformance tester (IMPI 0.0, chapter 5): `aiompi-impi-tester`.

A test manager with simulated processes. The manager speaks IMPI over TCP to an implementation under test, checks each
packet that arrives, and runs scripts in all processes. The tester has its own codec and algorithms and imports nothing
of aiompi, so that a mistake in aiompi cannot hide here.
"""
