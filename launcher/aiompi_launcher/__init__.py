"""The launcher: starts the ranks of a job, supervises them, and is the IMPI rendezvous server of the job.

    cli/            command lines -> spec: the job or server to run
    launch          runs a job from its spec to its exit code
    engine_agent    runs a job whose ranks an engine, such as srun, has started
    job/            the state tables of jobs and members, and the event loop around them
    hosts/          jobs on several hosts             impi/      the job's IMPI client and hosts; the IMPI server
    net/            connections from ranks            output/    output and input of the ranks
    start/          processes, directory and watchdog of a job
    conformance/    the IMPI conformance tester, which shares nothing with the rest

The launcher imports only the layers "words" and "protocols" of aiompi, and from `compat` the replacement of mpi4py. It
never imports the engine.

PYTEST_DONT_REWRITE: a rank imports this package before pytest, which therefore cannot rewrite the assertions.
"""
