"""Collective communication (chapter 4): every algorithm once, as a coroutine of requests.

An algorithm moves blocks (`block`) or combines accumulators (`accumulator`) over the channel of one call. It knows no
buffers, objects, waiting or event loops, and therefore serves buffers and objects in both faces. `registry` lists the
algorithms of each collective, `select` chooses among them by the data in `tuning.json`, `buffers` and `objects` check
the arguments of a call and start it. `signature` lets ranks notice that they do not agree on a call. `intercomm` has
the algorithms between the groups of an intercommunicator, `neighborhood` the one between neighbours. `impi` has those
of the IMPI standard, for communicators that span IMPI clients; their blocks hold external32.

To add an algorithm, write a file in the folder of its collective and enter it in `registry`; the tests then run it.
"""
