"""Envoy's ext_proc protocol: protobuf on one side, exchanges on the other. Knows no policy."""
