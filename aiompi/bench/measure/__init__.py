"""What runs inside the contenders: one module each, a function per work, and the same method everywhere.

Latencies and bandwidths follow the OSU micro-benchmarks: messages go to and fro `iterations` times between two
readings of the clock; bandwidth sends a window of messages and waits for one short answer.
"""
