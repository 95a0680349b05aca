"""What end-to-end tests and the bench share: the product as a process, raw HTTP, an ill-mannered provider.

Words: a *mesh* is one running `outrigger up`; a *script* is the list of answers that the rude provider gives
to requests which carry its name in `x-script`.
"""
