"""The wire format of IMPI 0.0, implemented from the document alone: start-up commands, packets, user data."""
