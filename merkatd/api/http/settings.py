"""What the tenants' interface is told: where it listens, and how much it puts up with."""

from dataclasses import dataclass

from merkatd.service.base.order_limits import PER_HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSettings:
    """The tenants' XML-RPC interface."""

    enabled: bool = True
    """Whether there is one."""
    address: str = "127.0.0.1"
    """Where it listens. An address that other machines can reach needs a certificate, or the
    word that it may do without."""
    port: int = 0
    """The port; with 0 the system chooses. Either way the file `merkat_xmlrpc` in the state
    directory holds the address that tenants need."""
    certificate: str = ""
    """A PEM file with the server's certificate and those that it was signed with. With one, TLS
    alone is spoken. An ECDSA key (P-256) signs many times faster than RSA: each new connection
    costs a signature."""
    key: str = ""
    """The PEM file with the certificate's key, if that is not in the same file."""
    plain: bool = False
    """Without a certificate, listen on addresses that other machines can reach all the same:
    passwords then travel in the clear."""
    body_mib: float = 0.25
    """The largest call that is read."""
    depth: int = 16
    """How deep arrays and structs may stand inside each other."""
    connections: int = 512
    """The most connections at a time,"""
    connections_per_address: int = 128
    """and from one address. Behind a trusted proxy so many calls of one address are in hand at a
    time; the next one is refused at once."""
    in_flight: int = 64
    """The most calls that are worked on at a time; others wait."""
    call_s: float = 10.0
    """How long a call may take to arrive."""
    answer_s: float = 30.0
    """How long an answer may take; after that the caller is told that it took too long."""
    idle_s: float = 30.0
    """How long a connection is kept that nothing comes through."""
    login_s: float = 10.0
    """How long OpenNebula's word on a login is trusted before it is asked again."""
    refusal_s: float = 2.0
    """The same for a login that it refused."""
    unknown_in_flight: int = 8
    """The most logins at a time that OpenNebula is asked about and that were not good within the
    last hour; one address has at most half of these turns. Known users wait for none of them."""
    user_calls: float = 50.0
    """Calls a second of one user, on average; each 4 KiB of a call count as another,"""
    address_calls: float = 500.0
    """and of one address for calls of users that are not known yet. There each KiB of a call
    counts as another, and a refused login as ten. What comes beyond it is not parsed, and is
    refused half a second later."""
    user_orders: float = PER_HOUR
    """Orders an hour of one user who is no administrator: to submit, change or end platforms and
    groups, and to move budgets; quotes of platforms count too. Each 4 KiB of one count as another,
    twenty bids as one. What they leave behind is kept for up to `keep_history`."""
    trusted_proxies: frozenset[str] | None = None
    """Addresses or networks of proxies, such as `127.0.0.1` or `10.0.0.0/8`. A request from one of
    them counts for the address that its `X-Forwarded-For` names; from others that header is
    ignored."""
    burst_s: float = 4.0
    """So many seconds' worth of calls may come at once."""
