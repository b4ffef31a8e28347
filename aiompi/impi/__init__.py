"""IMPI 0.0: the protocol by which different MPI implementations run one job. Sans I/O.

    command    framing, for both directions
    auth       authentication: methods NONE and KEY, their variables, and the -auth list
    label      table of the fourteen labels: a client's own part, and parsing of the joint arrays
    universe   the job that the labels describe: clients, hosts, procs and the negotiated values; host identifiers
    client     start-up protocol, client side
    server     start-up protocol, server side; collation joins the labels of all clients
    local      a server and its clients joined in memory
    native     private labels of aiompi clients
    packet     packets between hosts once the job runs
    channel    messages between two processes of different clients, as packets
    host       checks and counts the packets that pass through a host
    slots      memory for long packets that a rank shares with its host

Terms (section 1): all clients connect to the *server*; a *client* is one MPI implementation with a client rank; a
*host* is an agent of a client that serves some *procs*, the MPI processes. COMM_WORLD has the procs of client 0
first, then those of client 1, and so on.

A client; the caller owns the socket to the server:

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

With `ClientPart(native=True)` aiompi clients recognise each other: if *all* clients of the job are aiompi, each pauses
after `Described`, and `client.may_submit` is true. The caller then calls `client.submit(label, data)` any number of
times, and `client.done()` once. If the server passes on unknown labels, the private labels of all clients come back as
`PrivateLabel(label, parts)` before `Started`.

The server; the caller owns the listening socket and the clock:

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

A job of one client needs no socket:

    job = SoloJob(part)                     # job.universe is set
    job.finish()
"""
