"""Programs that run inside the contenders: one module each, one function per work, the same method everywhere.

Latencies and bandwidths follow the OSU micro-benchmarks. Latency makes `iterations` round trips between two readings of
the clock. Bandwidth sends a window of messages and waits for one short answer. All messages are sent from the same
memory, which does not change meanwhile, and received into the same other memory. Bare protocols and channels that
return messages as new `bytes` do so here as well.
"""
