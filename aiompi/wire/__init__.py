"""The formats of all data that aiompi processes exchange, without sockets.

version      check of the version of aiompi at the other end
hello        both ends of every new connection prove that they know a key
frame        frames that carry messages between ranks
control      messages between a rank and the launcher's agent
agreement    agreements among ranks, even if some ranks fail
liveness     detection of stopped and unreachable processes
wait_report  reports to the launcher about the calls in which a rank waits
memory       shared memory of processes on one machine
"""
