"""Injection: a pod becomes the JSON Patch that puts a sidecar into it; the API server asks by a webhook."""
