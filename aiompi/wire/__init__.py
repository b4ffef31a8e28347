"""The formats of all data that aiompi processes exchange, without sockets.

version      the version of aiompi at the other end
hello        proves the key of the job, or of two ranks, on every new connection
frame        frames between ranks
control      messages between a rank and the launcher's agent
agreement    agreements of ranks although some of them fail
liveness     whether another process is alive
wait_report  reports to the launcher of the calls in which a rank waits
memory       memory that processes of one machine share
"""
