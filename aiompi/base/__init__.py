"""Small modules for all layers: argument checks, handles, attributes, lazy NumPy, texts for messages, the version."""
