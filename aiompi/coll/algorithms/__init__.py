"""The algorithms, in a module for each collective.

`shapes` arranges ranks in trees, powers of two and hosts. `intercomm` has the algorithms between the groups of an
intercommunicator, `neighborhood` the algorithm between neighbours. `impi` has the algorithms of the IMPI standard, for
communicators that span IMPI clients (see `clients`); their blocks hold data in external32.
"""
