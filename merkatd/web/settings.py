"""The settings of the web page: its address, its sessions, its live updates."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """The web page, for browsers. It calls the tenants' interface, so it needs `api.enabled`."""

    enabled: bool = True
    """Whether the daemon serves the web page."""
    address: str = "127.0.0.1"
    """The address that the page listens on. An address that other machines can reach needs a
    certificate, or `plain`."""
    port: int = 0
    """The port; with 0 the system chooses one. The daemon writes the page's address to the file
    `merkat_web` in the state directory."""
    certificate: str = ""
    """A PEM file with the server's certificate and its chain. With a certificate, the page is
    served over https only."""
    key: str = ""
    """The PEM file with the certificate's key, if the key is not in the same file."""
    plain: bool = False
    """Whether the page may listen without a certificate on addresses that other machines can
    reach: behind a TLS proxy, or where passwords may be sent unencrypted."""
    hosts: frozenset[str] | None = None
    """More host names of the page, for example `market.example`. The listening address,
    `localhost` and the names in the certificate are always accepted; a request with any other
    `Host` header is refused."""
    trusted_proxies: frozenset[str] | None = None
    """Addresses or networks of proxies in front of the page, for example `127.0.0.1`. The sender
    of a request from such a proxy is the address in its `X-Forwarded-For`; the daemon ignores
    that header from other addresses."""
    session_s: float = 43_200.0
    """The longest time of a session; then the visitor must sign in again."""
    session_idle_s: float = 3_600.0
    """The longest time of a session without a click; then the visitor must sign in again."""
    sessions_per_user: int = 20
    """The most sessions of a user; another sign-in ends the oldest session."""
    listeners: int = 200
    """The most open pages that receive live updates. Pages beyond that show the state at the time
    they were loaded."""
    listeners_per_user: int = 10
    """The most open pages of a user that receive live updates."""
