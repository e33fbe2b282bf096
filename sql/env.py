"""Alembic's environment: it runs migrations on the connection of `merkatd.database.migrations`."""

from alembic import context

connection = context.config.attributes["connection"]

context.configure(
    connection=connection,
    target_metadata=context.config.attributes["metadata"],
    # SQLite can't alter most columns in place: there a batch copies the table.
    render_as_batch=connection.dialect.name == "sqlite",
    # Only SQLite can roll back changes of the schema when a migration fails.
    transactional_ddl=connection.dialect.name == "sqlite",
)

with context.begin_transaction():
    context.run_migrations()
