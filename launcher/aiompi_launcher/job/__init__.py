"""One job: a state table that knows neither sockets nor clocks, and a supervisor around it.

states       states of a rank, events, and actions that a table asks for
table        the state table of a job             inquiry, suspicions    what ranks wait for; broken links
supervisor   processes, connections, signals and timers around the table
members      the state table of the members of an open job
open_job     connections and timers around the members; each of their worlds is a job of its own
heartbeat    finds ranks that are stuck           rendezvous             the other IMPI clients of the job
"""
