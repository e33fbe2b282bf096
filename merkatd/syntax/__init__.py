"""OpenNebula's template syntax: a parser that follows OpenNebula's own, and a writer."""

from merkatd.syntax.one_template import Attribute, ParseError, Template, Vector, cdata, xml_name
from merkatd.syntax.template_parser import parse
from merkatd.syntax.template_writer import UnwritableError, template_text

__all__ = [
    "Attribute",
    "ParseError",
    "Template",
    "UnwritableError",
    "Vector",
    "cdata",
    "parse",
    "template_text",
    "xml_name",
]
