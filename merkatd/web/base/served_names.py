"""The host names of the web page: a request with another `Host` header is refused.

Another site can make its own name resolve to this machine (DNS rebinding). The browser then treats
this page as a part of that site, but the `Host` header still contains the other site's name.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509

_HOST = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::[0-9]{1,5})?")
_LONGEST = 300


def host_name(header: str) -> str | None:
    """Return the name or address in a `Host` header, without its port; None if it is invalid."""
    match = _HOST.fullmatch(header) if len(header) <= _LONGEST else None
    if match is None:
        return None
    return (match["six"] or match["name"]).lower().removesuffix(".") or None


class OwnHosts:
    """The page's own names."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {"localhost"}
        self.also(names)

    def also(self, names: Iterable[str]) -> None:
        """Add host names of the page."""
        self._names.update(_plain(name) for name in names)

    def include(self, name: str, local: str) -> bool:
        """Return whether the page is served as `name` to a connection made to `local`."""
        return name in self._names or name == _plain(local)


def certificate_names(path: str) -> tuple[str, ...]:
    """Return the names and addresses for which a certificate is valid, without wildcards."""
    if not path:
        return ()
    own = x509.load_pem_x509_certificates(Path(path).read_bytes())[0]
    try:
        names_element = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    names = names_element.get_values_for_type(x509.DNSName)
    addresses = names_element.get_values_for_type(x509.IPAddress)
    return (*(name for name in names if "*" not in name), *map(str, addresses))


def _plain(address: str) -> str:
    """Return a name or address in the form of `host_name`."""
    return address.lower().removesuffix(".").partition("%")[0].removeprefix("::ffff:")
