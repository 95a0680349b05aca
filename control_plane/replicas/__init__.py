"""What replicas of the control plane know of each other's sidecars, by way of the database they share.

Each posts its own row (`board`): that it is there, which revision all its sidecars obey, who they are, and
what they counted together. No replica calls another.
"""
