"""Whose documents and secrets are."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_TABLES = ("document_versions", "secrets")


def upgrade() -> None:
    """Make room for an owner; builds from before, which may still run beside, leave it empty."""
    for table in _TABLES:
        op.add_column(table, sa.Column("owner", sa.Text))


def downgrade() -> None:
    """Forget owners: everything is anybody's."""
    for table in _TABLES:
        op.drop_column(table, "owner")
