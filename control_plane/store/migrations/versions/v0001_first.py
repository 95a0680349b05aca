"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Make every table, and the counters at 0."""
    op.create_table(
        "revisions",
        sa.Column("revision", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at", _MOMENT, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("of_documents", sa.Boolean, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("rolled_back_to", sa.BigInteger),
    )
    op.create_index("revisions_by_state", "revisions", ["state", "of_documents", "revision"])
    op.create_table(
        "document_versions",
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("revision", sa.BigInteger, sa.ForeignKey("revisions.revision"), primary_key=True),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("content", sa.LargeBinary),
    )
    op.create_index("document_versions_by_revision", "document_versions", ["revision"])
    op.create_table(
        "consumer_keys",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("consumer", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False, unique=True),
        sa.Column("hint", sa.Text, nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("expires_at", _MOMENT),
        sa.Column("revoked_at", _MOMENT),
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("scopes", sa.Text, nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("salt", sa.LargeBinary, nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("expires_at", _MOMENT),
        sa.Column("revoked_at", _MOMENT),
    )
    op.create_table(
        "secrets",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
        sa.Column("changed_at", _MOMENT, nullable=False),
    )
    op.create_table(
        "audit",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True
        ),
        sa.Column("at", _MOMENT, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("revision", sa.BigInteger),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
    )
    op.create_table(
        "settings",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("value", sa.LargeBinary, nullable=False),
    )
    epochs = op.create_table(
        "epochs",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("epoch", sa.BigInteger, nullable=False),
    )
    op.bulk_insert(
        epochs, [{"name": name, "epoch": 1} for name in ("revisions", "keys", "secrets", "tokens")]
    )


def downgrade() -> None:
    """Drop every table with all it holds."""
    for name in (
        "epochs",
        "settings",
        "audit",
        "secrets",
        "tokens",
        "consumer_keys",
        "document_versions",
        "revisions",
    ):
        op.drop_table(name)
