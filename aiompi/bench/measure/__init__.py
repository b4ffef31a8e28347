"""What runs inside the contenders: one module each, a function per work, and the same method everywhere.

Latencies and bandwidths follow the OSU micro-benchmarks: messages go to and fro `iterations` times between two
readings of the clock; bandwidth sends a window of messages and waits for one short answer. All are sent from the same
memory, which does not change meanwhile, and received into the same other memory; bare protocols and channels that give
messages as `bytes` of their own are left to do so.
"""
