"""What the web page is told: where it is served, and how long people stay signed in."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """The web page, for browsers. It needs the tenants' interface, through whose door it goes."""

    enabled: bool = True
    """Whether there is one."""
    address: str = "127.0.0.1"
    """Where it listens. An address that other machines can reach needs a certificate, or the
    word that it may do without."""
    port: int = 0
    """The port; with 0 the system chooses. Either way the file `merkat_web` in the state
    directory holds the page's address."""
    certificate: str = ""
    """A PEM file with the server's certificate and those that it was signed with. With one, the
    page is served over https alone."""
    key: str = ""
    """The PEM file with the certificate's key, if that is not in the same file."""
    plain: bool = False
    """Without a certificate, listen on addresses that other machines can reach all the same:
    behind a proxy that speaks TLS, or where passwords may travel in the clear."""
    hosts: frozenset[str] | None = None
    """Further names under which browsers may ask for the page, such as `market.example`. The
    address it listens at, `localhost` and the names in its certificate always count; a request
    with any other `Host` header is refused."""
    trusted_proxies: frozenset[str] | None = None
    """Addresses or networks of proxies in front of the page, such as `127.0.0.1`. A request from
    one of them counts for the address that its `X-Forwarded-For` names; from others that header
    is ignored."""
    session_s: float = 43_200.0
    """Who signed in is asked again after this,"""
    session_idle_s: float = 3_600.0
    """and sooner where nothing was clicked for so long."""
    sessions_per_user: int = 20
    """The most sessions of one user; signing in once more ends the oldest one."""
    listeners: int = 200
    """The most pages that are kept up to date at a time,"""
    listeners_per_user: int = 10
    """and of one user. Others show what was when they were loaded."""
