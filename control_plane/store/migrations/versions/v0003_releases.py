"""How far each Release is."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make their table."""
    op.create_table(
        "releases",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("standing", sa.LargeBinary, nullable=False),
        sa.Column("evidence", sa.LargeBinary),
    )


def downgrade() -> None:
    """Drop it: each Release begins anew."""
    op.drop_table("releases")
