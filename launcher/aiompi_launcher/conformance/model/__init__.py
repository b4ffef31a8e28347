"""A separate MPI that speaks IMPI: the simulated processes of the tester (IMPI 0.0, section 5.1).

Many processes, hosts and clients live in one event loop. Processes of one client hand messages to each other in memory.
Processes of different clients, even of simulated clients, use TCP between their hosts.
"""
