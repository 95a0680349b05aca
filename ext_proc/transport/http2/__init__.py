"""A gRPC server for one trusted peer, Envoy, over HTTP/2 on a Unix socket (RFC 9113, gRPC over HTTP/2).

What a general server spends on a call is more than our whole decision, so this one knows only what Envoy
needs: uncompressed messages, no metadata, no dynamic header table. `frames` is the protocol's bytes, `blocks`
the header blocks, `call` one gRPC call, `outgoing` what is sent and when, `calls` the open calls of a
connection, `connection` one connection, `server` the socket.

A *frame* is HTTP/2's; a *message* is gRPC's. A *window* is how much a side takes; a call is *ended* when the
peer has sent its last, *open* while the connection has it. A connection *drains* when no more calls are to be
opened on it, and has *settled* when the peer is known to have heard that.

https://www.rfc-editor.org/rfc/rfc9113, https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
"""
