"""Answers to the commands' questions about prices, bids, VMs and decisions."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from merkat.answers.json_rows import json_row
from merkat.answers.tenant_names import TenantNames
from merkatd.client import Administration, Listings, Merkat
from merkatd.client.merkat import NEW_VM
from merkatd.commands.history_commands import LOG_TABLE
from merkatd.commands.list_command import APPLICATIONS, HOSTS, VMS
from merkatd.commands.market_commands import RESOURCES
from merkatd.commands.terminal import ScreenTable
from merkatd.commands.vm_commands import EXPLAIN_TABLE

_TREND = 60
_STEPS = 20
"""The steps in an overview."""


class PeriodAnswers:
    """The answers about the latest period."""

    def __init__(self, merkat: Merkat, names: TenantNames) -> None:
        self._merkat = merkat
        self._names = names
        self._listings = Listings(merkat)
        self.known: Mapping[str, Callable[..., Any]] = {
            "applications": self._applications,
            "bid": self._bid,
            "explain": self._explain,
            "explain_application": self._explain_application,
            "explain_price": self._explain_price,
            "explain_refusal": self._explain_refusal,
            "hosts": self._hosts,
            "mode": self._mode,
            "overview": self._overview,
            "price": self._price,
            "price_history": self._price_history,
            "quote": self._quote,
            "status": self._status,
            "steps": self._steps,
            "vms": self._vms,
        }

    def _price(self, market: str = "") -> Any:
        present = self._merkat.prices(market)
        past = self._merkat.price_history(_TREND, market)
        rows = []
        for now in present:
            trend = [getattr(row, now.resource) for row in past if row.market == now.market]
            cleared = [price for price in trend if price is not None]
            rows.append(
                {
                    "market": now.market,
                    "resource": now.resource,
                    "price": now.price,
                    "before": trend[-2] if len(trend) > 1 else None,
                    "least": min(cleared, default=None),
                    "most": max(cleared, default=None),
                    "trend": trend,
                    "period": now.period,
                    "at_s": now.at_s,
                }
            )
        return rows

    def _price_history(self, periods: int, market: str = "") -> Any:
        return [json_row(row) for row in self._merkat.price_history(periods, market)]

    def _bid(self, vm: str, **bids: float) -> Any:
        id_ = self._names.vm(vm)
        if bids:
            change = self._merkat.change_bid(id_, **bids)
            rows = [json_row(row) for row in change.resources]
            return _bid_answer(change.id, change.name, change.limit_order, rows, changed=True)
        now = self._merkat.bid_of(id_)
        rows = [
            {
                "resource": row.resource,
                "old": row.bid,
                "new": row.bid,
                "share": row.share,
                "new_share": row.share,
                "cost": row.cost,
                "new_cost": row.cost,
            }
            for row in now.resources
        ]
        return _bid_answer(now.id, now.name, now.limit_order, rows, changed=False)

    def _quote(self, vm: str | None = None, **amounts: Any) -> Any:
        bids = {name: amounts.pop(name) for name in RESOURCES if name in amounts}
        wishes = {name: f"want_{name}" for name in RESOURCES}
        wanted = {name: amounts.pop(key) for name, key in wishes.items() if key in amounts}
        id_ = NEW_VM if vm is None else self._names.vm(vm)
        if wanted:
            quote = self._merkat.quote_for(id_, size=amounts, bid=bids, **wanted)
        else:
            quote = self._merkat.quote(id_, size=amounts, **bids)
        return json_row(quote)

    def _explain(self, vm: str) -> Any:
        answer = json_row(self._merkat.explain(self._names.vm(vm)))
        answer["resources"] = _filled(EXPLAIN_TABLE, answer["resources"])
        return answer

    def _explain_application(self, application: int) -> Any:
        return json_row(self._merkat.explain_application(application))

    def _explain_price(self, resource: str = "") -> Any:
        return [json_row(row) for row in self._merkat.price_reasons(resource)]

    def _explain_refusal(self) -> Any:
        return [json_row(row) for row in self._merkat.refusals()]

    def _hosts(self) -> Any:
        hosts = self._listings.hosts()
        if any("vms" in host for host in hosts):  # the login is an administrator's
            return _filled(HOSTS, hosts)
        return _filled(HOSTS, _with_own_vms(hosts, self._listings.vms()))

    def _vms(self) -> Any:
        return _filled(VMS, self._listings.vms())

    def _applications(self) -> Any:
        return _filled(APPLICATIONS, self._listings.applications())

    def _steps(self, vm: str | None = None, host: str | None = None, **conditions: Any) -> Any:
        steps = self._listings.steps(
            vm=None if vm is None else self._names.vm(vm),
            host=None if host is None else self._names.host(host),
            **conditions,
        )
        return _filled(LOG_TABLE, steps)

    def _mode(self) -> Any:
        return {"mode": Administration(self._merkat).daemon().mode, "waiting_plan": None}

    def _status(self) -> Any:
        """Return what tenants see of the daemon's state; the rest is None."""
        hidden = dict.fromkeys(
            ("hosts", "vms", "outstanding_steps", "failures", "accounts_sound", "waiting_plan")
        )
        return {**json_row(Administration(self._merkat).daemon()), **hidden}

    def _overview(self) -> Any:
        status = self._status()
        if status["period"] is None:
            return {"status": status, "price": [], "hosts": [], "vms": [], "steps": []}
        hosts, vms = self._hosts(), self._vms()
        return {
            "status": {**status, "hosts": len(hosts), "vms": len(vms)},
            "price": self._price(),
            "hosts": hosts,
            "vms": vms,
            "steps": self._steps(limit=_STEPS),
        }


def _bid_answer(
    id_: int, name: str, limit_order: int | None, rows: Sequence[Any], *, changed: bool
) -> Any:
    about = {"id": id_, "name": name, "changed": changed, "limit_order": limit_order}
    return {**about, "resources": rows}


def _filled(table: ScreenTable, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows with None for values that XML-RPC leaves out."""
    missing = dict.fromkeys(column.key for column in table.columns)
    return [{**missing, **row} for row in rows]


def _with_own_vms(
    hosts: Iterable[Mapping[str, Any]], vms: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return hosts with the sums of the user's own VMs on them."""
    rows = []
    for host in hosts:
        there = [vm for vm in vms if vm.get("host") == host["name"]]
        row = {**host, "vms": len(there)}
        for name in RESOURCES:
            if name in host:
                row[f"given_{name}"] = sum(vm[name] for vm in there)
                row[f"bids_{name}"] = sum(vm[f"bid_{name}"] for vm in there)
        rows.append(row)
    return rows
