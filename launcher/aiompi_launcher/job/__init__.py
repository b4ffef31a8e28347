"""One job: a state table without sockets or clocks, and a supervisor around the table.

The table: events in, actions out.

    actions      events, actions and timers of all tables
    states       the state that the parts of a job's table share: ranks, world, phase
    table        the table of a job: which event a rank may send in which state, and what follows
    admission    which rank a new connection becomes
    traffic      what ranks tell each other through the launcher      inquiry       what ranks wait for
    failures     which rank has failed, and what follows              suspicions    broken links between ranks
    shutdown     how a job ends
    members      the table of the members of an open job

Around the tables: the event loop.

    perform      performs the actions of a table
    supervisor   one job: processes, signals and time limits around its table
    connections, processes, heartbeat    of the job's ranks
    clients, rendezvous                  the other IMPI clients of the job
    spawner      the process that has spawned the job
    open_job     an open job; each world of its members has a table of its own
"""
