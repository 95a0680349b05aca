"""The dashboard: one shell, its files, and the numbers that it shows live. It knows no HTTP; `api` serves it.

`static/` is what browsers load, as it is: no build step, nothing from elsewhere. `static/pages/README.md`
says how a page is added.
"""
