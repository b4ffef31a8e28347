"""The launcher: starts the ranks of a job, supervises them, and is the IMPI rendezvous server of the job.

    cli          command line          -> jobspec: what is to be run
    supervisor   one job: processes, connections, signals and clocks around ...
    job          ... the state table that decides
    control      connections from ranks        stdio    their output and input        spawn/    their processes
    impi/        the job's IMPI client and hosts, and the rendezvous server
    rundir       directory of a job            watchdog       cleans up when the launcher is killed

It imports from aiompi only the floors "words" and "protocols", and from `compat` where the stand-in for mpi4py is;
never the engine.
"""
