"""Programs that run inside the contenders: a module for each contender, with one function per measurement (work).

All works use the same method.

Latencies and bandwidths follow the OSU micro-benchmarks. Latency makes `iterations` round trips between two readings of
the clock. Bandwidth sends a window of messages and waits for one short answer. All messages are sent from one buffer,
whose content stays the same, and received into one other buffer. A contender whose API returns each message as new
`bytes` (a bare protocol or a channel) also returns new `bytes` in these measurements.
"""
