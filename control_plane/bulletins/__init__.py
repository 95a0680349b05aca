"""Telling webhooks what becomes of Releases: signed, one after the other, again until it is taken.

A *bulletin* is one event for one webhook; the registry writes it down with the move that it tells of.
"""
