"""Collective communication (chapter 4): every algorithm once, as a coroutine that awaits requests.

An algorithm moves blocks (`block`) or combines accumulators (`accumulator`) over the channel of one call. An algorithm
is independent of buffers, objects, waiting and event loops, and therefore serves buffers and objects in both faces.
`algorithms` has a module for each collective with its algorithms. `registry` lists the algorithms, and `select` chooses
among them by the data in `tuning.json`. `buffers` and `objects` check the arguments of a call and start the call.
`signature` lets ranks detect that they have made different calls. `shm_sync` lets ranks that share memory communicate
without messages.

To add an algorithm, write a function in the module of its collective and enter it in `registry`; the tests then run it.
"""
