"""The address of a request's caller: the connection's, or the address a trusted proxy names."""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from typing import TypeAlias

_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
_WITH_PORT = re.compile(r"\[([0-9A-Fa-f:.]{2,45})\](?::[0-9]{1,5})?|([0-9.]{7,15}):[0-9]{1,5}")
_MOST_HOPS = 20
_NETWORK_BITS = 64
"""The size of the IPv6 network of a customer, who could use each of its addresses once."""


class TrustedProxies:
    """The trusted proxies, whose `X-Forwarded-For` is used."""

    def __init__(self, networks: Iterable[str]) -> None:
        self._networks = [ipaddress.ip_network(network) for network in networks]

    def trust(self, address: str) -> bool:
        """Return whether this is the address of a trusted proxy."""
        ip = _address(address)
        return ip is not None and any(ip in network for network in self._networks)

    def caller(self, peer: str, headers: Sequence[bytes]) -> str:
        """Return the address that limits count for a request from `peer`.

        Each proxy appends the address of its client, so the list is read from its end: the first
        address that is no trusted proxy is the caller's. The caller itself can write the addresses
        before it, so they are ignored.
        """
        if not self.trust(peer):
            return counted_address(peer)
        hops = b",".join(headers).decode("latin-1").rsplit(",", _MOST_HOPS)
        for hop in reversed(hops[-_MOST_HOPS:]):
            ip = _address(_without_port(hop.strip()))
            if ip is None:
                break
            peer = str(ip)
            if not self.trust(peer):
                break
        return counted_address(peer)


def is_invalid_network(text: str) -> bool:
    """Return whether the text is neither an address nor a network."""
    try:
        ipaddress.ip_network(text)
    except ValueError:
        return True
    return False


def counted_address(address: str) -> str:
    """Return the name under which an address is counted; for IPv6, that of its network."""
    ip = _address(address)
    if isinstance(ip, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((int(ip), _NETWORK_BITS), strict=False))
    return address if ip is None else str(ip)


def _address(text: str) -> _Address | None:
    try:
        ip = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return mapped or ip


def _without_port(hop: str) -> str:
    match = _WITH_PORT.fullmatch(hop)
    return hop if match is None else match[1] or match[2]
