"""Layouts: type maps flattened into strided blocks, and the copies that they stand for (section 3.12)."""
