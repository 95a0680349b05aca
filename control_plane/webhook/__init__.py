"""Putting sidecars into pods: the patch (pure), reviews of the API server, and serving them over TLS.

*Injection* is the patch that gives a pod its sidecar pair; a *review* is the API server's question about one
pod. Nothing here decides policy: the pair gets that from the control plane once it runs.
"""
