"""`python -m aiompi.bench faults`: jobs whose processes are killed, stopped and cut off from each other meanwhile.

`trial` starts the processes of one job, injects, and checks what is left. `storms` has the kinds of jobs, one class
each; the programs that they run are `measure.storm` and `measure.elastic`. `command` runs a campaign.
"""
