"""Where revisions, keys, secrets, tokens and the audit are kept: SQLAlchemy over SQLite or PostgreSQL.

Implements the registry's `Store`. Decides nothing about documents; sees stored secrets only sealed.
"""
