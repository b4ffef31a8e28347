"""The bytes of IMPI 0.0, written from the document alone: start-up commands, packets, user data."""
