"""aiompi in the company of other frameworks.

`dask` and `ray` run jobs inside their clusters, and share `allocation`. `opentelemetry` makes spans of what members say
to each other. Each of the three needs the packages of the extra with its name.
"""
