"""The settings of the tenants' interface: its address, and its limits."""

from dataclasses import dataclass

from merkatd.service.base.order_limits import PER_HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSettings:
    """The tenants' XML-RPC interface."""

    enabled: bool = True
    """Whether the daemon serves the interface."""
    address: str = "127.0.0.1"
    """The address that the interface listens on. An address that other machines can reach needs a
    certificate, or `plain`."""
    port: int = 0
    """The port; 0 lets the system choose. In both cases, the file `merkat_xmlrpc` in the state
    directory contains the address for tenants."""
    certificate: str = ""
    """A PEM file with the server's certificate and its chain of signers. If it is set, the port
    accepts TLS only. An ECDSA key (P-256) signs many times faster than an RSA key, and each new
    connection needs a signature."""
    key: str = ""
    """The PEM file with the certificate's key, if the certificate's file does not contain it."""
    plain: bool = False
    """Whether the interface may listen without a certificate on an address that other machines can
    reach. Passwords are then sent without encryption."""
    body_mib: float = 0.25
    """The largest accepted call."""
    depth: int = 16
    """The deepest accepted nesting of arrays and structs."""
    connections: int = 512
    """The most connections at a time."""
    connections_per_address: int = 128
    """The most connections at a time from an address. Behind a trusted proxy, it is the most
    unanswered calls of an address; further calls are rejected at once."""
    in_flight: int = 64
    """The most calls that run at a time; other calls wait."""
    call_s: float = 10.0
    """The longest time in which a call arrives."""
    answer_s: float = 30.0
    """The longest time until a call is answered; after it, the caller gets an error."""
    idle_s: float = 30.0
    """The time after which an idle connection is closed."""
    login_s: float = 10.0
    """The time for which OpenNebula's acceptance of a login is valid, before it is asked again."""
    refusal_s: float = 2.0
    """The time for which OpenNebula's rejection of a login is valid."""
    unknown_in_flight: int = 8
    """The most simultaneous calls to OpenNebula about logins that were not accepted in the last
    hour. An address has at most half of these turns. Known users do not wait for them."""
    user_calls: float = 50.0
    """The most calls a second of a user, on average. Each 4 KiB of a call counts as another call,
    and so do 500 VMs of a visitor who opens a page of the web page, and 8 KiB of that page."""
    address_calls: float = 500.0
    """The most calls a second of unknown users from an address, on average. Each KiB of a call
    counts as another call, a rejected login as ten calls. Further calls are not parsed, and are
    rejected half a second later."""
    user_orders: float = PER_HOUR
    """The most orders an hour of a user without administrator rights: orders to submit, change or
    end platforms and groups, to change budgets, and quotes of platforms. Each 4 KiB of an order
    counts as another order, and twenty bids count as one. The database keeps traces of orders for
    up to `period.keep_history`."""
    trusted_proxies: frozenset[str] | None = None
    """Addresses or networks of trusted proxies, such as `127.0.0.1` or `10.0.0.0/8`. A request of
    a trusted proxy counts for the address in its `X-Forwarded-For`; in requests of other clients,
    this header is ignored."""
    burst_s: float = 4.0
    """The number of seconds whose average number of calls may arrive at once."""
