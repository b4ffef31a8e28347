"""The launcher: starts the ranks of a job, supervises them, and is the IMPI rendezvous server of the job.

    cli          command line          -> jobspec: the job to run
    supervisor   one job: processes, connections, signals and clocks around ...
    job          ... the state table of the job
    openjob      a job whose members come and go, around ...
    members      ... the table of its members
    control      connections from ranks        stdio    their output and input        spawn/    their processes
    impi/        the job's IMPI client and hosts, and the rendezvous server
    rundir       directory of a job            watchdog       cleans up if the launcher is killed

It imports from aiompi only the layers "words" and "protocols", and from `compat` the replacement of mpi4py; never the
engine.
"""
