"""Workers that talk to each other, above the faces.

`line` carries numbered messages between two members, each once and in order. `exchange` holds the lines of one member.
These lines use a separate communicator, and continue from one world to the next. The other modules are built on lines.
`spans` is the seam for distributed traces.
"""
