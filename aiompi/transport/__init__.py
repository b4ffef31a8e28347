"""Transports, which carry frames between ranks. Each derives from `template.Transport`; `registry` chooses per peer."""
