"""XML as OpenNebula takes it: with names that lxml refuses.

# Note [Names with a colon]
Users name attributes as they like, also "A:B". For the server that is XML: to its libxml2 a
namespace that nobody declared is no error that ends the reading. lxml refuses such a text as a
whole, so one attribute in one user's template would keep everybody's pool from being read. A text
whose only mistakes are in namespaces is read once more, by a parser that goes on after mistakes.
No other text is: on one that is no XML such a parser may take hours.
"""

from typing import Any

from lxml import etree

Element = etree._Element  # noqa: SLF001 - lxml has no public name for the type


def only_in_names(log: Any) -> bool:
    """Return whether all mistakes in a parser's log are in namespaces."""
    return all(entry.domain == etree.ErrorDomains.NAMESPACE for entry in log)


def element_of(text: bytes, parser: Any, **options: Any) -> Element:
    """Return the element that a text is; `options` are the parser's own.

    Raises etree.XMLSyntaxError.
    """
    try:
        found = etree.fromstring(text, parser)
    except etree.XMLSyntaxError:
        if not only_in_names(parser.error_log):
            raise
        found = etree.fromstring(text, etree.XMLParser(recover=True, **options))
    element: Element = found
    return element
