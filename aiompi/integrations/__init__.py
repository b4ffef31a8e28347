"""aiompi in the company of other frameworks.

`dask` and `ray` run jobs inside their clusters, and share `allocation`. Each of the two needs the packages of the extra
with its name.
"""
