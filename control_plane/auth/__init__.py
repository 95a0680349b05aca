"""Who may do what: tokens, roles, scopes, sessions, and the gate that tells a right token from a wrong one.

Words: a *token* (`ort_<id>_<secret>`) is what a person, a program or a sidecar shows; a *role* is how much
its holder may do; *scopes* narrow the role; a *session* is a browser that has shown a token once. Nothing
here knows HTTP: time, randomness and the place where tokens are kept are passed in.
"""
