"""Output and input of the ranks.

streams    lines of a rank's output go to the launcher's output; terminal input goes to a rank
outputs    all output of a job
overlay    lines in the terminal below the output, such as the bar of a start that takes long
"""
