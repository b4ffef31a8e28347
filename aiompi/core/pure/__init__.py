"""The pure form of the core: the classes of the native one in Python, for where that could not be built."""
