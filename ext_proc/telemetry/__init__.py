"""What an operator sees: metrics, logs without personal data, traces.

Knows neither stages nor protobuf: the agent translates Envoy's access log into `record.RequestRecord`.

`redaction` finds personal data and keys in a text; `logs` writes JSON lines through it; `request_metrics`
counts finished requests (agent); `processor_metrics` counts decisions (processors, shared files);
`exposition` answers `/metrics`; `traces` makes spans.
"""
