"""A gRPC server for one trusted peer, Envoy, over HTTP/2 on a Unix socket (RFC 9113, gRPC over HTTP/2).

What a general server spends on a call is more than our whole decision, so this one knows only what Envoy
needs: uncompressed messages, no metadata, no dynamic header table. `frames` is the protocol's bytes, `call`
one gRPC call, `connection` one connection, `server` the socket.

https://www.rfc-editor.org/rfc/rfc9113, https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
"""
