"""What a VM gets of each resource, and where that is not what was decided, why."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from merkatd.api.questions.present import Present
from merkatd.cluster.columns import NOWHERE
from merkatd.web.charts import NAMES
from merkatd.web.markup import Markup, Part
from merkatd.web.pages.parts import NONE, amount, bar, credits_, table

_LESS = 0.995
"""A smaller part than this of what was decided is less than that."""


def gets_table(now: Present, row: int, found: Mapping[str, Any]) -> Markup:
    """The VM in this row, of which `found` was explained."""
    gets = dict(zip(now.snapshot.resources, now.given()[row].tolist(), strict=True))
    return table(
        "What it gets of each resource",
        ("", "Gets", "", "Of at most", "Used before", "Bid", "Pays", "Why not more"),
        [
            (
                NAMES.get(one["resource"], one["resource"]),
                amount(one["resource"], gets[one["resource"]]),
                bar(gets[one["resource"]] / one["most"] if one["most"] else 0.0, class_="wider"),
                amount(one["resource"], one["most"]),
                _used(one),
                credits_(one["bid"]),
                credits_(one["cost"]),
                _why(now, row, one, gets[one["resource"]]),
            )
            for one in found["resources"]
        ],
        numbers=(1, 3, 4, 5, 6),
        nothing="It holds nothing.",
    )


def _used(one: Mapping[str, Any]) -> Part:
    return NONE if one["used"] is None else amount(one["resource"], one["used"])


def _why(now: Present, row: int, one: Mapping[str, Any], gets: float) -> str:
    """What the host can't give now comes before what the market would not."""
    if _placed(now, row) and gets < _LESS * one["share"]:
        decided = amount(one["resource"], one["share"])
        return f"{decided} were decided, but others that are to leave its host are still there"
    holds = now.limits.holding_mib.get(int(now.snapshot.vms.id[row]))
    if one["resource"] == "memory" and holds is not None and abs(holds - gets) >= 1.0:
        return f"it holds {amount('memory', holds)}, which it uses or can't give back"
    return str(one["why_not_more"])


def has_less(now: Present, row: int) -> str:
    """A sentence where its host can't give the VM in this row what was decided; else nothing."""
    if np.any(now.given()[row] < _LESS * now.decision.allocations[row]) and _placed(now, row):
        return "It has less than that until others that are to leave its host have left."
    return ""


def _placed(now: Present, row: int) -> bool:
    return int(now.host[row]) != NOWHERE
