"""How a rank joins a job and leaves it: startup, the agent, open jobs, spawned jobs, ports, and shutdown."""
