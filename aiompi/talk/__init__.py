"""Workers that talk to each other, above the faces.

`line` carries numbered messages between two members, each once and in order. `exchange` has the lines of one member,
on a communicator of their own, and takes them from one world to the next. The other modules are built on lines. `spans`
is the seam for distributed traces.
"""
