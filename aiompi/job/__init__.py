"""How a rank comes to a job and leaves it: its start, its agent, open jobs, spawned jobs, ports, and its end."""
