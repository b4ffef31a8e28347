"""IMPI in the launcher: sockets and clocks around the protocols of `aiompi.impi`.

server    the rendezvous server             client    the connection of this job to such a server
hosts     the hosts of this job             host      one host: channels to other hosts, links to ranks
stream    packets over a socket             splitter  splits what a socket receives into packets
buffers   memory that packets are in
"""
