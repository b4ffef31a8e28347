"""How a rank waits. The only place that knows asyncio, epoll and clocks; each driver fits `aiompi.engine.Driver`."""
