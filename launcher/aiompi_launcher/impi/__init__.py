"""IMPI in the launcher: sockets and clocks around the protocols of `aiompi.impi`.

server    the rendezvous server             client    the server as the launcher of a client sees it (`Rendezvous`)
                                            server_link    the connection of a client to the server
hosts     the hosts of this job             host      one host: channels to other hosts, links to ranks
newcomers    connections to a host that have not identified themselves
introductions    how hosts and ranks identify themselves
stream    packets over a socket             splitter  splits what a socket receives into packets
buffers   memory of packets
"""
