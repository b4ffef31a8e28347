"""Processes on this machine.

ranks        starts the ranks of a job, with their environment and descriptors
forked       the launcher's side of a fork server             forkserver    the process that forks ranks
process      the process of a rank, and its process group     python        recognises Python programs
binding      the CPUs of each rank
directory    the directory of a job                           watchdog      cleans up if the launcher is killed
"""
