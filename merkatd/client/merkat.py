"""A tenant's calls: prices, bids, quotes, money; and the daemon's address."""

import http.client
import os
import select
import socket
import ssl
import xmlrpc.client
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from xml.parsers.expat import ExpatError

from merkatd.client.answers import (
    ApplicationExplanation,
    BidChange,
    Budget,
    CreatedVm,
    Explanation,
    MonthReport,
    NewBid,
    PastPrice,
    Price,
    PriceReason,
    Quote,
    QuotedResource,
    Refusal,
    Share,
    ShareReport,
    Statement,
    StatementVm,
    Tenant,
    VmBid,
    read,
    read_all,
)
from merkatd.client.errors import BadCallError, MerkatError, UnreachableError, value_of

DEFAULT_ENDPOINT = "http://localhost:2634/RPC2"


def default_endpoint(environment: Mapping[str, str] = os.environ) -> str:
    """Return MERKAT_XMLRPC, else the first line of ~/.one/merkat_xmlrpc, else local port 2634."""
    if address := environment.get("MERKAT_XMLRPC", "").strip():
        return address
    return _line(_home(environment) / ".one" / "merkat_xmlrpc") or DEFAULT_ENDPOINT


def default_session(environment: Mapping[str, str] = os.environ) -> str:
    """Return user:password from the file that ONE_AUTH names, else from ~/.one/one_auth."""
    named = environment.get("ONE_AUTH", "")
    path = Path(named).expanduser() if named else _home(environment) / ".one" / "one_auth"
    session = _line(path)
    if ":" not in session:
        raise MerkatError(f"{path} contains no login; expected a first line with user:password")
    return session


def _home(environment: Mapping[str, str]) -> Path:
    home = environment.get("HOME")
    return Path(home) if home else Path.home()


def _line(path: Path) -> str:
    """Return the first line of a file; empty if the file is missing or unreadable."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return ""
    return lines[0].strip() if lines else ""


SELF = -1
"""The caller, in the place of a tenant's id."""
NEW_VM = -1
"""A VM that does not exist yet, in the place of a VM's id."""
_BAD_CALLS = frozenset({-501, -503, -506, -509})
_LOST = (OSError, http.client.HTTPException, xmlrpc.client.Error, ExpatError, ValueError)


class Merkat:
    """One daemon and one login. It keeps a connection open: each thread needs its own Merkat."""

    def __init__(
        self,
        endpoint: str | None = None,
        session: str | None = None,
        *,
        timeout_s: float = 30.0,
        context: ssl.SSLContext | None = None,
    ) -> None:
        """Without `endpoint` and `session`, read MERKAT_XMLRPC and ONE_AUTH.

        `context` is for an https address whose certificate this machine does not trust.
        """
        self.endpoint = default_endpoint() if endpoint is None else endpoint
        self._session = default_session() if session is None else session
        secure = self.endpoint.startswith("https:")
        transport = _Secure(timeout_s, context) if secure else _Plain(timeout_s)
        self._server = xmlrpc.client.ServerProxy(
            self.endpoint, transport=transport, use_builtin_types=True
        )

    def __repr__(self) -> str:
        return f"Merkat({self.endpoint!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._server("close")()

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method and return its value. Raise MerkatError if it fails."""
        try:
            reply = getattr(self._server, method)(self._session, *arguments)
        except xmlrpc.client.Fault as fault:
            if fault.faultCode in _BAD_CALLS:
                raise BadCallError(fault.faultString, fault.faultCode) from None
            raise UnreachableError(fault.faultString, fault.faultCode) from None
        except (OverflowError, TypeError) as error:
            raise BadCallError(f"an argument can't be sent over XML-RPC: {error}") from None
        except _LOST as error:
            why = str(error) or type(error).__name__
            raise UnreachableError(f"{self.endpoint}: no answer: {why}") from None
        return value_of(reply)

    # -- the market ---------------------------------------------------------------------------

    def version(self) -> str:
        """Return the daemon's version of Merkat."""
        return str(self.call("merkat.system.version"))

    def prices(self, market: str = "") -> tuple[Price, ...]:
        """Return the present prices of one market or of all."""
        return read_all(Price, self.call("merkat.price.info", market))

    def price_history(self, periods: int = 60, market: str = "") -> tuple[PastPrice, ...]:
        """Return the prices of the newest periods, oldest first."""
        return read_all(PastPrice, self.call("merkat.price.history", periods, market))

    def price_reasons(self, resource: str = "", market: str = "") -> tuple[PriceReason, ...]:
        """Return how the present prices came about, of one resource and market or of all."""
        return read_all(PriceReason, self.call("merkat.price.explain", resource, market))

    def refusals(self) -> tuple[Refusal, ...]:
        """Return the newest refused requests of this login, the newest first."""
        return read_all(Refusal, self.call("merkat.refusal.list"))

    def quote(self, vm: int = NEW_VM, *, size: dict[str, Any] | None = None, **bid: float) -> Quote:
        """Return what bids (`cpu`, `memory`) of a VM, or of a new one, would get and cost now."""
        return self._quote("merkat.quote.bid", vm, bid, size)

    def quote_for(
        self,
        vm: int = NEW_VM,
        *,
        size: dict[str, Any] | None = None,
        bid: Mapping[str, float] | None = None,
        **wanted: float,
    ) -> Quote:
        """Return the bids needed for so much `cpu` (percent of a core) or `memory` (MiB).

        `bid` has the bids for other resources.
        """
        more = ({**bid},) if bid else ()
        return self._quote("merkat.quote.want", vm, wanted, size, *more)

    def bid_of(self, vm: int) -> VmBid:
        """Return a VM's bids, shares and costs."""
        return read(VmBid, self.call("merkat.bid.info", vm), resources=Share)

    def bid(self, vm: int, **bid: float) -> tuple[NewBid, ...]:
        """Change a VM's bids (`cpu`, `memory`) from the next period on."""
        return tuple(self.change_bid(vm, **bid).resources)

    def change_bid(self, vm: int, **bid: float) -> BidChange:
        """Change a VM's bids as `bid` does, and return them with the VM's name and limit order."""
        return read(BidChange, self.call("merkat.bid.set", vm, bid), resources=NewBid)

    def create_vm(
        self,
        *,
        template: str | None = None,
        template_id: int | None = None,
        template_name: str | None = None,
        name: str | None = None,
        bid: Mapping[str, float] | None = None,
    ) -> CreatedVm:
        """Create a VM of this login, with a bid, from a text or a template in OpenNebula."""
        request = without_none(
            template=template, template_id=template_id, template_name=template_name, name=name
        )
        bids = {resource: float(credits_) for resource, credits_ in (bid or {}).items()}
        return read(CreatedVm, self.call("merkat.vm.create", {**request, "bid": bids}))

    def explain(self, vm: int) -> Explanation:
        """Return the explanation of a VM's allocation."""
        return read(Explanation, self.call("merkat.vm.explain", vm))

    def explain_application(self, application: int) -> ApplicationExplanation:
        """Return where an application stands: its utility, and what its goal takes."""
        answer = self.call("merkat.application.explain", application)
        return read(ApplicationExplanation, answer)

    # -- money --------------------------------------------------------------------------------

    def tenant(self, tenant: int = SELF) -> Tenant:
        """Return a tenant's balance and entitlement."""
        return read(Tenant, self.call("merkat.tenant.info", tenant))

    def tenants(self) -> tuple[Tenant, ...]:
        """Return all tenants that the login may see."""
        return read_all(Tenant, self.call("merkat.tenant.list"))

    def budgets(self, tenant: int = SELF) -> tuple[Budget, ...]:
        """Return the budgets of a tenant's applications."""
        return read_all(Budget, self.call("merkat.budget.info", tenant))

    def set_budget(
        self,
        application: int,
        *,
        budget: float | None = None,
        replenishment: float | None = None,
    ) -> Budget:
        """Change an application's budget or replenishment; None leaves a value unchanged."""
        change = without_none(budget=budget, replenishment=replenishment)
        return read(Budget, self.call("merkat.budget.set", application, change))

    def statement(self, tenant: int = SELF, month: str = "") -> Statement:
        """Return a tenant's statement of a month, such as 2026-05; by default the present month."""
        answer = self.call("merkat.statement.info", tenant, month)
        return read(Statement, answer, vms=StatementVm)

    def report(
        self, tenant: int = SELF, month: str = "", months: int = 1
    ) -> tuple[MonthReport, ...]:
        """Return what a tenant used and paid in so many months up to `month`, oldest first."""
        return read_all(MonthReport, self.call("merkat.report.info", tenant, month, months))

    def share(self, tenant: int = SELF) -> ShareReport:
        """Return what a tenant may have of the cloud, and what it has now."""
        (row,) = read_all(ShareReport, self.call("merkat.share.info", tenant))
        return row

    def _quote(
        self,
        method: str,
        vm: int,
        amounts: dict[str, float],
        size: dict[str, Any] | None,
        *more: dict[str, float],
    ) -> Quote:
        answer = self.call(method, vm, amounts, size or {}, *more)
        return read(Quote, answer, resources=QuotedResource)


def without_none(**fields: Any) -> dict[str, Any]:
    """Return the members of a struct, without those that are None."""
    return {name: value for name, value in fields.items() if value is not None}


class _Once(xmlrpc.client.Transport):
    """Sends each call once. The library repeats a call whose answer is lost, even an order."""

    def request(self, host: Any, handler: str, request_body: Any, verbose: bool = False) -> Any:
        """Send a call on the open connection, or on a new one if the daemon has closed that."""
        kept = self._connection[1]
        if kept is not None and kept.sock is not None and _is_closed(kept.sock):
            self.close()
        return self.single_request(host, handler, request_body, verbose)


def _is_closed(kept: socket.socket) -> bool:
    """Return whether the other end has closed an idle connection: there is something to read."""
    look = select.poll()
    look.register(kept, select.POLLIN)
    return bool(look.poll(0))


class _Plain(_Once):
    """HTTP with a timeout."""

    def __init__(self, timeout_s: float) -> None:
        super().__init__(use_builtin_types=True)
        self._timeout_s = timeout_s

    def make_connection(self, host: Any) -> http.client.HTTPConnection:
        """Return the open connection, or a new one."""
        connection = super().make_connection(host)
        connection.timeout = self._timeout_s
        return connection


class _Secure(_Once, xmlrpc.client.SafeTransport):
    """HTTPS with a timeout."""

    def __init__(self, timeout_s: float, context: ssl.SSLContext | None) -> None:
        super().__init__(use_builtin_types=True, context=context)
        self._timeout_s = timeout_s

    def make_connection(self, host: Any) -> http.client.HTTPSConnection:
        """Return the open connection, or a new one."""
        connection = super().make_connection(host)
        connection.timeout = self._timeout_s
        return connection
