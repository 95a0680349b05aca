"""The only place in the data plane that names concrete classes.

`stages` puts the pipeline together, `caching` what the cache consists of; `processor` and `agent` run a
process each.
"""
