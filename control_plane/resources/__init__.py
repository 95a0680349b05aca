"""Documents: what a platform engineer writes, checked and compiled to the snapshot the data plane obeys.

Words: a *document* is one resource as written (`kind`, `metadata.name`, `spec`); a *problem* is one reason
why a document is refused; a *notice* names something accepted that has no effect yet. Reading, checking and
compiling are pure but for `loading.read_files`. Nothing here knows a server, a socket or Envoy.
"""
