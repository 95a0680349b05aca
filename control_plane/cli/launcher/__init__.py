"""The launcher of `outrigger up` and `outrigger sidecar`: starts the processes of a mesh and keeps them up.

`plan` says what to start (pure), `preflight` what would stop it from working, `child` keeps one process
up, `mesh` all of them, `drain` lets requests in flight finish, `screen` tells the user.
"""
