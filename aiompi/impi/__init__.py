"""IMPI 0.0: the protocol by which different MPI implementations run one job. Sans I/O.

    command    framing, for both directions
    auth       methods NONE and KEY, their variables and the -auth list
    label      the fourteen labels as a table: a client's own part, and how the joint arrays are read
    universe   what they describe: clients, hosts, procs and the negotiated values
    address    host identifiers from and to IP addresses
    client     one client's conversation with the server
    server     the server's conversation with all clients; collation joins their labels
    local      a server and its clients joined in memory
    packet     what travels between hosts once the job runs
    channel    the messages of two processes of different clients, as packets

Words (section 1): the *server* is the meeting point; a *client* is one MPI implementation with a client rank; a
*host* is an agent of a client that serves some *procs*, the MPI processes. COMM_WORLD has the procs of client 0
first, then those of client 1, and so on.

A client, whose shell owns the socket to the server:

    here = host_identifier("192.0.2.10")
    part = ClientPart(hosts=(HostPart(here, port, procs=(ProcPart(here, 4001), ProcPart(here, 4002))),))
    client = Client(rank, Credentials.from_environ(os.environ), part)
    send(client.data_to_send())
    while client.state is not ClientState.RUNNING:
        data = receive()                    # b"" at the end of the connection
        for event in client.receive_data(data) if data else client.receive_eof():
            ...                             # Accepted, Described, PrivateLabel, Started(universe)
        send(client.data_to_send())
    ...                                     # the programs run
    client.finish()
    send(client.data_to_send())

With `ClientPart(native=True)` clients of aiompi find each other: if *all* clients of the job are aiompi, each stops at
`Described` with `client.may_submit` true, and then calls `client.submit(label, data)` as often as it likes and
`client.done()` once. Private labels of all clients come back as `PrivateLabel(label, parts)` before `Started`; a server
that does not pass on unknown labels leaves them out.

The server, whose shell owns the listening socket and the clock:

    server = Server(count, Credentials.from_environ(os.environ), preference=parse_preference("1-0"))
    connection = server.add_connection("192.0.2.10:40312", now)     # for each accepted socket
    connection.receive_data(data), connection.receive_eof()         # never raise
    server.handle_timer(now)                                        # at server.deadline
    # after each of these calls:
    for event in server.events():
        ...                                 # Notice(text), Dropped, ClientLost, ClientFinished, JobFinished, ...
    for connection in open_connections:
        send(connection.data_to_send())
        if connection.closing:
            close()

A job of one client needs no socket at all:

    job = SoloJob(part)                     # job.universe is there
    job.finish()
"""
