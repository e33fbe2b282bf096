"""OpenNebula's XML, including names that lxml rejects.

# Note [Names with a colon]
Users may give attributes any name, also "A:B". OpenNebula accepts it: its libxml2 parser goes on
after an undeclared namespace. lxml rejects the whole text, so a single attribute in a single
user's template would make a whole pool unreadable. Therefore a text whose only errors are
undeclared namespaces is parsed a second time, by a parser that recovers from errors. No other text
gets a second attempt: on a text that is not XML, the recovering parser may take hours.
"""

from typing import Any

from lxml import etree

Element = etree._Element  # noqa: SLF001 - lxml has no public name for the type


def only_in_names(log: Any) -> bool:
    """Return whether all errors in a parser's log are about namespaces."""
    return all(entry.domain == etree.ErrorDomains.NAMESPACE for entry in log)


def element_of(text: bytes, parser: Any, **options: Any) -> Element:
    """Parse a text and return its root element. Raise etree.XMLSyntaxError.

    `options` are the options with which `parser` was made.
    """
    try:
        root = etree.fromstring(text, parser)
    except etree.XMLSyntaxError:
        if not only_in_names(parser.error_log):
            raise
        root = etree.fromstring(text, etree.XMLParser(recover=True, **options))
    element: Element = root
    return element
