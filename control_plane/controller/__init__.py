"""The controller: custom resources are mirrored into the control plane, and its verdicts back to them."""
