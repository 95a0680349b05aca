"""`make soak`: a mesh of real processes under mixed traffic, while everything around it fails in turn.

Words: a *question* is one request whose right answer is known before it is sent; an *outcome* is what became
of it; a *fault* is one thing done to one process, with the outcomes that it *excuses* while it lasts; a
*promise* is a figure of the report with the value that it has to have.
"""
