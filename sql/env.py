"""Runs migrations on the connection that `merkatd.database.migrations` hands over."""

from alembic import context

connection = context.config.attributes["connection"]

context.configure(
    connection=connection,
    target_metadata=context.config.attributes["metadata"],
    # SQLite can't alter most things in place; there a batch copies the table.
    render_as_batch=connection.dialect.name == "sqlite",
    # Where the server can, a migration that fails leaves nothing behind.
    transactional_ddl=connection.dialect.name == "sqlite",
)

with context.begin_transaction():
    context.run_migrations()
