"""`python -m aiompi.bench faults`: runs jobs while it kills and stops their processes and cuts their links.

`trial` starts the processes of one job, injects faults, and checks that nothing is left behind. `storms` has one class
per kind of job. The jobs run the programs `measure.storm` and `measure.elastic`. `command` runs a campaign of jobs.
"""
