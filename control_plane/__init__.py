"""The control plane, the `outrigger` command, and its tools."""
