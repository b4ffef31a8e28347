"""Jobs on several hosts.

    hostlist   the hosts of a job, and the host of each rank
    plans      what the launcher tells agents to do
    starters   the command that starts an agent on a host: ssh, srun, or none on this machine
    branches   the agents that a launcher or an agent has started, and the hosts behind them
    channel    messages (`messages`) over the standard input and output of an agent
    streams    standard input and output of a rank, within flow-control windows
    agent      the agent of a host: starts ranks, relays their control messages, output, input and exit statuses
    remote     the launcher's side: ranks of other hosts for the supervisor

Only the launcher has the table of states (`aiompi_launcher.job.table`). The launcher starts at most WIDTH agents, and
each agent starts at most WIDTH others, so that n hosts are reached in about log n / log WIDTH steps.
"""
