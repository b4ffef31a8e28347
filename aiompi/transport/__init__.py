"""Transports carry frames between ranks.

Each derives from `template.Transport`; `registry` chooses one for each peer.
"""
