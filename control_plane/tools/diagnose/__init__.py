"""`outrigger diagnose`: where the latency of calls to one model comes from, and what gains it back.

Words used here:

- *probe*: one kind of measurement (`probes`), such as calls on new connections or prompts of many lengths.
- *plan*: how many calls each probe may make (`plan`), so that all of them stay inside a budget (`budget`).
- *sample*: the times and tokens of one answered call (`sample`).
- *estimate*: a value with the interval that holds the truth 19 times in 20 (`estimates`, `fitting`).
- *readings*: what all samples say together (`readings`).
- *finding*: milliseconds to be gained, and the policy field that gains them (`findings`).

Only `wire`, `caller` and `run` wait for anything; the rest is pure. `exporter` is a library of its own, for
applications without a sidecar. No prompt and no key is in any sample, report or error.
"""
