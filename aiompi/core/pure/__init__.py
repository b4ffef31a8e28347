"""The pure form of the core: the classes of the native form in Python."""
