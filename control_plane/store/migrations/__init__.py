"""Alembic's migrations of the tables; `env.py` is run by Alembic, `versions/` holds one file a step."""
