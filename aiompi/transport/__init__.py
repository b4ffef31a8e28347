"""Ways for frames between ranks. `template` is the seam that every transport fits, `registry` chooses one per peer."""
