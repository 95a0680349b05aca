"""The data plane: the processor that Envoy asks about every request, and the agent beside it.

Terms used throughout:

- *exchange*: one HTTP request as it passes through the sidecar, with its response.
- *stage*: one step of the pipeline; it answers, changes, parks or passes on an exchange.
- *snapshot*: the whole policy for one workload, immutable and versioned.
- *route id*: the name of one Envoy route; the processor chooses it, the agent renders it.
"""
