"""Messages and memory of controllers of the largest platforms are accepted."""

import asyncio
import json
import random
from collections.abc import Sequence
from dataclasses import asdict, replace
from math import inf
from typing import Any

import pytest

from controllers.applications.best_effort import BestEffort
from controllers.applications.deadline_controllers import FullDeadline
from controllers.applications.market_position import traces_of, traces_to_keep
from controllers.controller import Controller
from merkatd.policies.vertical import BidTrace
from merkatd.protocol.bus_messages import TO_DAEMON, Measured, Remember, Stored
from merkatd.protocol.message_limits import longest_memory
from merkatd.protocol.platform_messages import MOST_VMS, ActionOutcome, ClusterTerms, VmNow
from merkatd.protocol.wire_format import Envelope, largest_bytes, pack, unpack
from tests.bus.rig import assignment, news
from tests.lengths import shorten

GOODS = ("cpu", "memory", "network", "disk")
FULL = dict.fromkeys(GOODS, 512.0)
CLUSTERS = 10
PERIODS = shorten(3, 2)


class Daemon:
    """Accept only messages that a platform of this many VMs can send over the bus."""

    def __init__(self, vms: int) -> None:
        self.largest = largest_bytes(vms)
        self.memory: Any = None
        self.longest: dict[str, int] = {}

    async def ask(self, body: Any, action_id: str = "") -> Any:
        """Pack and unpack the message as the bus does."""
        data = pack(Envelope(body, "s" * 32, 7, action_id or "i" * 32))
        message = unpack(data, TO_DAEMON, self.largest).body
        kind = type(message).__name__
        self.longest[kind] = max(self.longest.get(kind, 0), len(data))
        if isinstance(message, Remember):
            self.memory = message.memory
        if isinstance(message, Remember | Measured):
            return Stored()
        return ActionOutcome(accepted=True)


def cluster(name: str, vms: int) -> ClusterTerms:
    """Return the terms of VMs that trade all goods."""
    return ClusterTerms(name=name, least=vms, most=vms, floor={}, ceiling=FULL)


def play(kind: type[Controller], vms: int, periods: int = PERIODS) -> Daemon:
    """Run some periods of a platform of this many VMs, at changing prices."""
    drawn = random.Random(1)  # noqa: S311 - a test
    each = vms // CLUSTERS
    given = replace(
        assignment(),
        clusters=tuple(cluster(f"ranks{row}", each) for row in range(CLUSTERS)),
        parameters={"steps": 10_000},
        deadline_s=1e6,
    )
    daemon = Daemon(vms)
    controller = kind(given, daemon)
    for period in range(1, periods + 1):
        prices = {name: 0.01 * drawn.uniform(0.3, 3.0) for name in GOODS}
        latest = news(
            period=period,
            deadline_s=1e6,
            balance=1e9,
            vms=tuple(
                VmNow(
                    vm=1_000_000 + row,
                    cluster=f"ranks{row % CLUSTERS}",
                    state="running",
                    bid={name: drawn.random() / 3 for name in GOODS},
                    allocation={name: 512.0 * drawn.random() for name in GOODS},
                )
                for row in range(each * CLUSTERS)
            ),
            sizes={f"ranks{row}": each for row in range(CLUSTERS)},
            prices=prices,
            capacity=dict.fromkeys(prices, 1e9),
        )
        for name in sorted({vm.cluster for vm in latest.vms}):
            made = {f"made/{vm.vm}": 3.0 * period for vm in latest.vms if vm.cluster == name}
            values = {"done": 3.0 * period} | made
            seen = Measured(cluster=name, at_s=latest.at_s, values=values)
            asyncio.run(daemon.ask(seen))
            asyncio.run(controller.take(seen))
        asyncio.run(controller.take(latest))
    return daemon


@pytest.mark.parametrize("kind", [BestEffort, FullDeadline])
def test_the_largest_platform_fits_on_the_bus(kind: type[Controller]) -> None:
    """All VMs trade four goods, with room for a site's own controller."""
    vms = shorten(MOST_VMS, 2_000)
    daemon = play(kind, vms)
    assert daemon.longest.keys() >= {"SetBids", "Remember"}
    longest = max(daemon.longest.values()) * MOST_VMS / vms
    assert longest <= 0.8 * largest_bytes(MOST_VMS)


@pytest.mark.parametrize("kind", [BestEffort, FullDeadline])
def test_the_memory_of_a_vm_is_short(kind: type[Controller]) -> None:
    """It is sent and stored after each period."""
    daemon = play(kind, 1_000)
    text = json.dumps(daemon.memory, separators=(",", ":"))
    assert len(text) / 1_000 <= 50 * len(GOODS)
    assert len(text) <= longest_memory(1_000)


def known(traces: Sequence[BidTrace]) -> list[dict[str, float]]:
    """Return the numbers by name, without unknown ones."""
    return [
        {name: value for name, value in asdict(trace).items() if value is not None}
        for trace in traces
    ]


def test_traces_are_stored_with_three_digits() -> None:
    """Unknown and infinite numbers are restored unchanged."""
    traces = {
        7: (BidTrace(), BidTrace(change=-0.012345678, limit=0.5, run=2, market=0.0098765432)),
        8: (BidTrace(limit=inf, short=1 / 3, short_keeping=2 / 3, market_before=1e-7 / 3),),
    }
    back = traces_of(json.loads(json.dumps(traces_to_keep(traces))))
    assert back.keys() == traces.keys()
    for vm, before in traces.items():
        for read, kept in zip(known(back[vm]), known(before), strict=True):
            assert read == pytest.approx(kept, rel=6e-3)


def test_traces_stored_by_name_are_still_read() -> None:
    """A controller of a newer daemon continues with its old memory."""
    before = {"7": [{"change": 0.5, "run": 2, "short": 0.1, "market": None}, {"limit": 0.25}]}
    assert traces_of(before) == {7: (BidTrace(change=0.5, run=2, short=0.1), BidTrace(limit=0.25))}
