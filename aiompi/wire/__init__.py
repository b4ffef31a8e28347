"""Bytes between aiompi processes, without sockets.

`hello` proves the key of the job on every new connection, `frame` is what ranks exchange afterwards, `control`
is what a rank and the launcher's agent exchange; `memory` is what processes of a machine share.
"""
