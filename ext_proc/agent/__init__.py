"""The agent: one process a sidecar, between the control plane, the local Envoy and the local processors.

It holds the stream to the control plane, keeps the last good snapshot on disk, renders it to Envoy's
resources, serves them over ADS, and hands the snapshot to the processors once Envoy can route what they will
decide. It knows no stage. Protobuf types stay within it.
"""
