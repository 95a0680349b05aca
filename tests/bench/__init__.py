"""The bench: the product against a floor measured in the same run, `make bench` (not collected by pytest).

The *floor* is the least that an ext_proc service in Python can cost: the same Envoy filters and the same
messages, and a grpcio server that decides nothing. Rounds are interleaved (A B A B …) and medians compared,
so a machine that slows down slows both.
"""
