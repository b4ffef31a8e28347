"""Ways to start the processes of a job."""
