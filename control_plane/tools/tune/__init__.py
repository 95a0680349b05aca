"""The batch tuner: how many questions should share a call, found by trying, within a budget.

It sends its calls through the load generator (`tools.load`) and knows the mesh only by one Policy that it may
set between trials (`policies`).

Words used here:

- *setting*: a batch size, and the window in which a sidecar gathers it (`settings`).
- *question*: what one caller asks; a batch of ten holds ten. The budget counts questions.
- *place*: one question in flight. Every setting is tried with as many places as the callers there would be,
  so that a small batch and a large one are under the same pressure.
- *trial*: some questions asked with one setting; its *observations* are what came of each call (`settings`).
- *score*: what is to be small, by the target (`scoring`); its uncertainty is bootstrapped.
- *race*: trials in rounds; a setting that is clearly worse drops out (`racing`).
- *method*: how a batch is made: by this tool (native, array), or by the sidecar (waves, policy) (`asking`).
"""
