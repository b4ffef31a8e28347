"""Drivers: how a rank waits. Each driver implements `aiompi.engine.Driver`, with an event loop or with epoll."""
