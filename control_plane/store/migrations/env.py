"""What Alembic runs for each command: the migrations, in the transaction of the connection it is given."""

from alembic import context

from control_plane.store.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
