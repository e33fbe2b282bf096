"""Tables as text for a screen and as CSV, JSON and XML: the output of all commands."""

from merkatd.commands.terminal.table_columns import (
    Column,
    ColumnFormat,
    ColumnsError,
    Filter,
    FilterError,
    Row,
    ScreenTable,
    parse_filters,
)
from merkatd.commands.terminal.table_formats import (
    to_csv,
    to_json,
    to_text,
    to_xml,
    to_yaml,
    yaml_of,
)

__all__ = [
    "Column",
    "ColumnFormat",
    "ColumnsError",
    "Filter",
    "FilterError",
    "Row",
    "ScreenTable",
    "parse_filters",
    "to_csv",
    "to_json",
    "to_text",
    "to_xml",
    "to_yaml",
    "yaml_of",
]
