"""The faces: ways of waiting for one and the same engine. `native` awaits, `blocking` blocks."""
