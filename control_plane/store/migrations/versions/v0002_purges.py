"""Purges of cached answers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make their table."""
    op.create_table(
        "purges",
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at_s", sa.Double, nullable=False),
        sa.Column("tenant", sa.Text),
        sa.Column("model", sa.Text),
        sa.Column("version", sa.Text),
        sa.Column("key_prefix", sa.Text),
    )


def downgrade() -> None:
    """Drop it: what was purged may be served again."""
    op.drop_table("purges")
