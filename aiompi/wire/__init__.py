"""Formats of what aiompi processes exchange, without sockets.

version      which aiompi is at the other end
hello        proves the key of the job, or of two ranks, on every new connection
frame        frames between ranks
control      messages between a rank and the launcher's agent
wait_report  what a rank waits for, for the launcher
memory       memory that processes of one machine share
"""
