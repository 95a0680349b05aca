"""The HTTP side of the control plane: health, readiness, and errors as problem details (RFC 9457)."""
