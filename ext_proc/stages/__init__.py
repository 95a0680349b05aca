"""The steps of the pipeline, one file each, in the order of `wiring`.

A stage knows the exchange and its own collaborators (Protocols it declares); it knows no other stage.
How to add one: `docs/adding-a-stage.md`.
"""
