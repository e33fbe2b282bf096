"""The schema as plain SQL, for administrators who review what is made on their server.

python -m merkatd.database.plain
"""

from sqlalchemy.dialects import mysql
from sqlalchemy.schema import CreateIndex, CreateTable

from merkatd.database import migrations
from merkatd.database.tables import METADATA

PATH = migrations.scripts() / "schema.mysql.sql"

_HEAD = """\
-- All tables of Merkat on MySQL and MariaDB, as its migrations make them; the daemon makes them
-- itself where they are missing. Made by `python -m merkatd.database.plain`.

"""


def schema() -> str:
    """All tables and indexes, and the mark that the migrations were made."""
    dialect = mysql.dialect()
    parts = []
    for table in METADATA.sorted_tables:
        parts.append(str(CreateTable(table).compile(dialect=dialect)).strip())
        indexes = sorted(table.indexes, key=lambda index: str(index.name))
        parts += [str(CreateIndex(index).compile(dialect=dialect)).strip() for index in indexes]
    parts.append(
        "CREATE TABLE alembic_version (\n"
        "\tversion_num VARCHAR(32) NOT NULL, \n"
        "\tCONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)\n)"
    )
    parts.append(f"INSERT INTO alembic_version VALUES ('{migrations.newest()}')")  # noqa: S608 - a revision of ours
    lines = (line.rstrip() for line in ";\n\n".join(parts).splitlines())
    return _HEAD + "\n".join(lines) + ";\n"


def main() -> None:
    """Write the file."""
    PATH.write_text(schema())


if __name__ == "__main__":
    main()
