"""Snapshots → Envoy's resources, as plain data (pure).

Resources are dictionaries in the JSON form of Envoy's messages, as Envoy's own documents show them;
`agent.resources` makes protobuf of them. Several snapshots render to their union, because requests decided
by an older one still look for its routes and clusters (make before break). One file a type of resource.
"""
