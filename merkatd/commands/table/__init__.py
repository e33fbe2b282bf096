"""Tables on the screen and for programs: the one printer of all commands."""

from merkatd.commands.table.columns import Column, ColumnsError, Kind, Row, Table
from merkatd.commands.table.filters import Filter, FilterError, parse_filters
from merkatd.commands.table.forms import to_csv, to_json, to_text, to_xml

__all__ = [
    "Column",
    "ColumnsError",
    "Filter",
    "FilterError",
    "Kind",
    "Row",
    "Table",
    "parse_filters",
    "to_csv",
    "to_json",
    "to_text",
    "to_xml",
]
