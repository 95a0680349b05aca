"""The HTTP side of the control plane: REST, login, probes, metrics, and its own description."""
