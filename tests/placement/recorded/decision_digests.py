"""Digests of decisions for clouds that are made from seeds.

Numbers are rounded before they enter a digest, since mathematical libraries differ in the last
bits: to 1e-9, and to 9 digits where they are greater.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from merkatd.cluster import Decision, Snapshot
from merkatd.cluster.snapshot import view_of_market
from merkatd.placement import STRATEGIES
from merkatd.placement.base.repeatable_random import repeatable_random
from tests.clouds import crowded, flavoured
from tests.placement.conformance.filled_clouds import filled_cloud

FILE = Path(__file__).with_name("decisions.json")
RECORDED = ("tabu", "paper", "groups", "pack")
"""The strategies whose decisions are recorded."""
PERIODS = 2
"""The periods that are decided of each cloud, the later with the memory of the earlier."""

Digests = dict[str, str]
"""By part of the decisions."""


def _filled(seed: int) -> Snapshot:
    return view_of_market(filled_cloud(seed), 0)


def _large(seed: int) -> Snapshot:
    return view_of_market(filled_cloud(seed, 10, 70), 0)


def _crowded(seed: int) -> Snapshot:
    return crowded(8, seed)


def _flavoured(seed: int) -> Snapshot:
    return flavoured(6, seed)


MAKERS: Mapping[str, tuple[Callable[[int], Snapshot], int]] = {
    "filled": (_filled, 8),
    "large": (_large, 4),
    "crowded": (_crowded, 4),
    "flavoured": (_flavoured, 4),
}
"""By kind of cloud: the function that makes one from a seed, and the number of seeds from 0."""

CLOUDS: Mapping[str, tuple[Callable[[int], Snapshot], int]] = {
    f"{kind}, seed {seed}": (make, seed)
    for kind, (make, seeds) in MAKERS.items()
    for seed in range(seeds)
}
"""By name: the function that makes the cloud, and its seed."""


def cloud_named(name: str) -> Snapshot:
    """Return the cloud of this name."""
    make, seed = CLOUDS[name]
    return make(seed)


def cloud_digest(snapshot: Snapshot) -> str:
    """Return the digest of a cloud, which shows whether it is still the same."""
    return _digest(_rounded(snapshot))


def decision_digests(strategy: str, snapshot: Snapshot) -> Digests:
    """Return the digests of what a strategy decides for a cloud in some periods."""
    entry, memory = STRATEGIES[strategy], dict[str, Any]()
    parts: dict[str, list[Any]] = {}
    for later in range(PERIODS):
        now = replace(snapshot, period=snapshot.period + later, now_s=snapshot.now_s + 60.0 * later)
        random = repeatable_random(11, now.period, "default")
        decision = entry.decide(now, entry.defaults, memory, random)
        memory = dict(decision.memory)
        for part, value in _parts(decision).items():
            parts.setdefault(part, []).append(value)
    return {part: _digest(value) for part, value in parts.items()}


def _parts(decision: Decision) -> dict[str, Any]:
    return {
        "steps": [[type(step).__name__, _rounded(step)] for step in decision.plan],
        "allocations": _rounded(decision.allocations),
        "prices": _rounded(decision.prices),
        "reasons": _rounded(decision.reasons),
    }


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _rounded(value: Any) -> Any:
    """Return the value as JSON has it, with texts for rounded numbers."""
    if isinstance(value, np.ndarray):
        return [_rounded(each) for each in value.tolist()]
    if isinstance(value, Mapping):
        return {str(key): _rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    if hasattr(value, "__dataclass_fields__"):
        return {each.name: _rounded(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, float):
        return f"{round(value, 9) + 0.0:.9g}" if abs(value) > 1 else f"{round(value, 9) + 0.0:.9f}"
    return value


def all_digests() -> dict[str, dict[str, Any]]:
    """Return the digests of all clouds, and of all decisions by strategy and cloud."""
    clouds = {name: cloud_named(name) for name in CLOUDS}
    return {
        "clouds": {name: cloud_digest(snapshot) for name, snapshot in clouds.items()},
        **{
            strategy: {name: decision_digests(strategy, at) for name, at in clouds.items()}
            for strategy in RECORDED
        },
    }


def recorded_digests() -> dict[str, dict[str, Any]]:
    """Return the recorded digests."""
    read: dict[str, dict[str, Any]] = json.loads(FILE.read_text())
    return read


def changes(strategy: str, now: Mapping[str, Digests], before: Mapping[str, Digests]) -> list[str]:
    """Return in words what differs between the digests of a strategy."""
    found = []
    for cloud in sorted({*now, *before}):
        ours, theirs = now.get(cloud, {}), before.get(cloud, {})
        parts = [part for part in {**theirs, **ours} if ours.get(part) != theirs.get(part)]
        if parts:
            found.append(f"{strategy}, {cloud}: other {', '.join(parts)}")
    return found
