"""Programs that run inside the contenders: one module each, one function per work, the same method everywhere.

Latencies and bandwidths follow the OSU micro-benchmarks. Latency makes `iterations` round trips between two readings of
the clock. Bandwidth sends a window of messages and waits for one short answer. All messages are sent from one memory,
whose content stays the same, and received into one other memory. A bare protocol or a
channel that returns each message as new `bytes` does that here, too.
"""
