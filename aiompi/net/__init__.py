"""Sockets of ranks and of the launcher: addresses of this host, TLS, and the handshake at the start of a connection."""
