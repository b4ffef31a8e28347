"""aiompi in the company of other frameworks.

`dask` and `ray` run jobs inside their clusters, and share `allocation`. `opentelemetry` makes spans of the messages
between members. Each of the three needs the packages of the extra with its name.
"""
