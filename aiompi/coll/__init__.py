"""Collective communication (chapter 4): every algorithm once, as a coroutine of requests.

An algorithm moves blocks (`block`) or combines accumulators (`accumulator`) over the channel of one call. It knows no
buffers, objects, waiting or event loops, and therefore serves buffers and objects in both faces. `algorithms` has a
module for each collective, with its algorithms one below the other. `registry` lists them, `select` chooses among them
by the data in `tuning.json`, `buffers` and `objects` check the arguments of a call and start it. `signature` lets ranks
notice that they do not agree on a call. `shm_sync` lets ranks that share memory do without messages.

To add an algorithm, write a function in the module of its collective and enter it in `registry`; the tests then run it.
"""
