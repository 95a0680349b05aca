"""What replicas tell each other, and sessions that were logged out."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make their tables."""
    op.create_table(
        "replicas",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("beat", sa.BigInteger, nullable=False),
        sa.Column("obeys", sa.BigInteger, nullable=False),
        sa.Column("views_edition", sa.BigInteger, nullable=False),
        sa.Column("views", sa.LargeBinary, nullable=False),
        sa.Column("totals_edition", sa.BigInteger, nullable=False),
        sa.Column("totals", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "ended_sessions",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("until_s", sa.Double, nullable=False),
    )


def downgrade() -> None:
    """Drop them: replicas know nothing of each other, and whoever logged out has to wait."""
    op.drop_table("ended_sessions")
    op.drop_table("replicas")
