"""The drawings of docs/concepts.md; `python -m tests.docs.drawings` writes them.

Each number in them comes from the functions that the daemon uses.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from merkatd.currency.credits import MICRO
from merkatd.currency.income import RenewalPart, incomes
from merkatd.market.floors import paid_floors
from merkatd.market.price import charges, price
from merkatd.market.share import share
from tests.docs.svg import GREY, INK, TENANTS, WIDTH, Drawing

FOLDER = Path(__file__).parents[2] / "docs" / "drawings"
HOST = 400.0
"""Capacity of a host of four cores, in percent of a core."""
RESERVE = 0.0001
"""The default reserve price of a percent of a core."""
HOUR = 60
"""Periods in an hour."""

Bids = Mapping[str, float]


def shares(bids: Bids, floors: Bids | None = None, caps: Bids | None = None) -> dict[str, float]:
    """Return each tenant's share of one host."""
    bid = np.array(list(bids.values()))
    floor = np.array([(floors or {}).get(name, 0.0) for name in bids])
    cap = np.array([(caps or {}).get(name, HOST) for name in bids])
    pool = np.zeros(len(bid), dtype=np.int64)
    result = share(bid, floor, cap, pool, np.array([HOST]))
    return dict(zip(bids, result.allocation.tolist(), strict=True))


def unit_price(bids: list[float], capacity: float, cap: float = HOST) -> float:
    """Return the price of a percent of a core for a period."""
    bid = np.array(bids)
    pool = np.zeros(len(bid), dtype=np.int64)
    result = share(bid, np.zeros(len(bid)), np.full(len(bid), cap), pool, np.array([capacity]))
    return float(price(result.level, np.array([RESERVE]))[0])


def charge(bid: float, allocation: float, asked: float) -> float:
    """Return a VM's cost of a period."""
    owed = charges(np.array([[bid]]), np.array([[allocation]]), np.array([[asked]]), 1.0)
    return float(owed[0, 0])


def _host(drawing: Drawing, y: float, name: str, parts: Mapping[str, float]) -> None:
    drawing.text(10, y + 22, name)
    labelled = [(tenant, amount, f"{tenant} {amount:.0f} %") for tenant, amount in parts.items()]
    drawing.bar(y, labelled, HOST)


def period() -> Drawing:
    """Return the order of work in a period."""
    drawing = Drawing(150, "A period: charge, observe, decide, act, announce, and the rest of it")
    words = ("charge", "observe", "decide", "act", "announce")
    for number, word in enumerate(words):
        drawing.labelled(10 + 80 * number, 30, 74, [word], TENANTS["ana"])
    drawing.labelled(412, 30, 120, ["shares hold"], "#ffffff")
    drawing.labelled(540, 30, 90, ["charge ..."], TENANTS["ana"])
    drawing.line([(10, 90), (WIDTH - 5, 90)], ink=GREY)
    for x, label in ((10, "12:00:00"), (412, "seconds later"), (540, "12:01:00")):
        drawing.line([(x, 84), (x, 96)], ink=GREY)
        drawing.text(x, 114, label)
    drawing.text(10, 138, "The charge at 12:01 is for the minute that began at 12:00.", ink=GREY)
    return drawing


def bid() -> Drawing:
    """Return how one bid's cost and share follow from the bids of others."""
    drawing = Drawing(180, "A bid of 3 credits beside no other, one and two other bids")
    cases: list[Bids] = [
        {"ana": 3.0},
        {"ana": 3.0, "bo": 1.0},
        {"ana": 3.0, "bo": 1.0, "cy": 4.0},
    ]
    for number, bids in enumerate(cases):
        y = 10 + 56 * number
        parts = shares(bids)
        asked = unit_price(list(bids.values()), HOST)
        cost = charge(bids["ana"], parts["ana"], asked)
        drawing.text(10, y + 15, "ana bids 3")
        drawing.text(10, y + 33, f"and pays {cost:.2g}", ink=GREY)
        drawing.bar(y, [(n, a, f"{n} {a:.0f} %") for n, a in parts.items()], HOST)
    return drawing


def share_of_host() -> Drawing:
    """Return a host that is divided by bids."""
    bids = {"ana": 3.0, "bo": 1.0, "cy": 1.0}
    drawing = Drawing(80, "A host of four cores, divided by bids of 3, 1 and 1")
    _host(drawing, 10, "the host", shares(bids))
    drawing.text(130, 66, "bids: ana 3, bo 1, cy 1", ink=GREY)
    return drawing


def floor() -> Drawing:
    """Return a crowded host without and with a floor."""
    bids = {"ana": 3.0, "cy": 2.0, "bo": 1.0}
    elsewhere = 2.0
    asked = unit_price([*bids.values(), elsewhere], 2 * HOST)
    paid = float(
        paid_floors(
            np.array([[100.0]]), np.array([[1.0]]), np.array([[asked]]), np.array([[RESERVE]])
        )[0, 0]
    )
    drawing = Drawing(150, "A crowded host without and with a floor of one core")
    _host(drawing, 10, "no floor", shares(bids))
    _host(drawing, 60, "bo: floor 100", shares(bids, floors={"bo": paid}))
    drawing.text(
        130,
        116,
        f"bids: ana 3, cy 2, bo 1; price: {100 * asked * HOUR:.3g} credits for a core-hour",
        ink=GREY,
    )
    drawing.text(130, 136, f"bo's bid buys {paid:.0f} %: the whole floor holds", ink=GREY)
    return drawing


def cap() -> Drawing:
    """Return a host without and with a cap."""
    bids = {"ana": 3.0, "bo": 1.0, "cy": 1.0}
    drawing = Drawing(130, "A host without and with a cap of one core")
    _host(drawing, 10, "no cap", shares(bids))
    _host(drawing, 60, "ana: cap 100", shares(bids, caps={"ana": 100.0}))
    drawing.text(130, 116, "bids: ana 3, bo 1, cy 1", ink=GREY)
    return drawing


def price_of_core() -> Drawing:
    """Return the price of a core while VMs come and go."""
    crowd = [4, 4, 8, 8, 12, 16, 16, 12, 6, 2, 2]
    prices = [100 * HOUR * unit_price([1.0] * count, 2 * HOST, cap=100.0) for count in crowd]
    drawing = Drawing(200, "The price of a core while VMs come and go")
    right, foot, pixels = WIDTH - 20, 150, 1.0
    drawing.line([(60, 20), (60, foot), (right, foot)], ink=GREY)
    step = (right - 60) / len(crowd)
    points = list[tuple[float, float]]()
    for number, (count, asked) in enumerate(zip(crowd, prices, strict=True)):
        x = 60 + step * number
        points += [(x, foot - pixels * asked), (x + step, foot - pixels * asked)]
        drawing.text(x + step / 2, foot + 20, f"{count}", at="middle")
    drawing.line(points)
    for amount in (60.0, 120.0):
        drawing.text(52, foot - pixels * amount + 5, f"{amount:g}", at="end", ink=GREY)
        drawing.line(
            [(60, foot - pixels * amount), (right, foot - pixels * amount)], ink=GREY, dashed=True
        )
    drawing.text(
        60,
        foot + 42,
        "VMs that bid 1 credit each, on 8 cores; above: credits for a core-hour",
        ink=GREY,
    )
    return drawing


def budget() -> Drawing:
    """Return the accounts and the ways of credits between them."""
    drawing = Drawing(170, "Credits move between the treasury, tenants and applications")
    drawing.labelled(10, 50, 110, ["treasury"], "#ffffff")
    drawing.labelled(255, 50, 130, ["account of ana"], TENANTS["ana"])
    drawing.labelled(505, 50, 125, ["budget of an", "application"], TENANTS["ana"])
    drawing.arrow((120, 58), (253, 58))
    drawing.text(187, 48, "renewal", at="middle", ink=GREY)
    drawing.arrow((385, 58), (503, 58))
    drawing.text(445, 44, "moved by ana", at="middle", ink=GREY)
    drawing.arrow((503, 74), (387, 74))
    drawing.text(442, 96, "the rest", at="middle", ink=GREY)
    drawing.arrow((300, 80), (300, 118), (70, 118), (70, 82))
    drawing.text(185, 136, "charges of VMs", at="middle", ink=GREY)
    drawing.arrow((560, 98), (560, 154), (40, 154), (40, 82))
    drawing.text(420, 148, "charges of the application's VMs", at="middle", ink=GREY)
    return drawing


def renewal() -> Drawing:
    """Return a balance over eight hours with a renewal every two hours."""
    supply, spent_an_hour = 300, (80, 60, 120, 150, 20, 30, 100, 90)
    balance, points = supply * MICRO, [(60.0, 30.0)]
    step, foot = (WIDTH - 80) / len(spent_an_hour), 150

    def height(held: int) -> float:
        return foot - (foot - 30) * held / (supply * MICRO)

    for hour, spent in enumerate(spent_an_hour, start=1):
        balance -= spent * MICRO
        points.append((60 + step * hour, height(balance)))
        if hour % 2 == 0:
            tenant = RenewalPart(0, 1.0, balance)
            balance += incomes(supply * MICRO, supply * MICRO - balance, [tenant])[0]
            points.append((60 + step * hour, height(balance)))
    drawing = Drawing(190, "A balance that falls by charges and is topped up at each renewal")
    drawing.line([(60, 15), (60, foot), (WIDTH - 20, foot)], ink=GREY)
    drawing.line([(60, height(supply * MICRO)), (WIDTH - 20, height(supply * MICRO))], dashed=True)
    drawing.line(points, ink=INK)
    drawing.text(52, height(supply * MICRO) + 5, f"{supply}", at="end", ink=GREY)
    for hour in range(0, len(spent_an_hour) + 1, 2):
        drawing.text(60 + step * hour, foot + 20, f"{hour} h", at="middle", ink=GREY)
    return drawing


def platform() -> Drawing:
    """Return the loop of a controller."""
    drawing = Drawing(190, "A platform: template, controller, VMs and their progress")
    drawing.labelled(10, 30, 130, ["template:", "goal, budget"], "#ffffff")
    drawing.labelled(220, 30, 150, ["controller"], TENANTS["cy"])
    drawing.labelled(450, 30, 180, ["daemon: prices,", "shares, charges"], TENANTS["ana"])
    drawing.labelled(330, 130, 180, ["the platform's VMs"], TENANTS["bo"])
    drawing.arrow((140, 45), (218, 45))
    drawing.arrow((370, 40), (448, 40))
    drawing.text(409, 30, "bids", at="middle", ink=GREY)
    drawing.arrow((448, 54), (372, 54))
    drawing.text(409, 72, "prices", at="middle", ink=GREY)
    drawing.arrow((540, 78), (540, 145), (512, 145))
    drawing.text(548, 110, "shares", ink=GREY)
    drawing.arrow((328, 145), (270, 145), (270, 62))
    drawing.text(262, 110, "progress", at="end", ink=GREY)
    return drawing


DRAWINGS: Mapping[str, Callable[[], Drawing]] = {
    "period": period,
    "bid": bid,
    "share": share_of_host,
    "floor": floor,
    "cap": cap,
    "price": price_of_core,
    "budget": budget,
    "renewal": renewal,
    "platform": platform,
}


def main() -> None:
    """Write all drawings."""
    FOLDER.mkdir(exist_ok=True)
    for name, drawn in DRAWINGS.items():
        (FOLDER / f"{name}.svg").write_text(drawn().render(), encoding="utf-8")


if __name__ == "__main__":
    main()
