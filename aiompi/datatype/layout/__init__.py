"""Layouts: type maps flattened into strided blocks, and the copies that they describe (section 3.12)."""
