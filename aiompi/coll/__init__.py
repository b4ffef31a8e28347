"""Collective communication (chapter 4): every algorithm once, as a coroutine of requests.

An algorithm moves blocks (`block`) or combines accumulators (`accumulator`) over the channel of one call. It knows
neither buffers nor objects, neither waiting nor event loops: so it serves both kinds of call in every face. `registry`
lists the algorithms of each collective, `select` chooses among them by the data in `tuning.json`, `buffers` and
`objects` check the arguments of a call and start it. `signature` lets ranks find out that they do not agree on a call.
`intercomm` has the algorithms between the groups of an intercommunicator, `neighborhood` the one between neighbours.
`impi` has those of the IMPI standard, for communicators that span IMPI clients, whose blocks hold external32.

To add an algorithm, write a file beside its siblings and enter it in `registry`; the tests then run it.
"""
