"""The test tool: a web page to run tests by hand (IMPI 0.0, sections 5.1 and 5.2)."""
