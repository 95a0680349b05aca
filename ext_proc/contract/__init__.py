"""What control plane and data plane agree on; the only part of `ext_proc` that `control_plane` imports.

It knows neither protobuf nor Kubernetes nor HTTP servers (the generated stubs of `push.proto` aside).
"""
