"""Sessions: turns that the mesh remembers for a caller, as pure arithmetic.

A *turn* is what was asked, from a user's message on, and all that came of it up to the final answer of the
assistant; a *record* is a turn as stores keep it; a *conversation* is one request within its session.
"""
