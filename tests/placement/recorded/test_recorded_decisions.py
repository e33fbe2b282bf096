"""The strategies decide as recorded; a change that is meant is recorded anew, with its reason."""

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from merkatd.placement import STRATEGIES
from tests.placement.recorded.decision_digests import (
    CLOUDS,
    RECORDED,
    changes,
    cloud_digest,
    cloud_named,
    decision_digests,
    recorded_digests,
)

ADVICE = "if that is intended: python -m tests.placement.recorded, and the reason in the commit"


def test_the_clouds_are_the_recorded_ones() -> None:
    """Else the decisions differ because the clouds do."""
    now = {name: cloud_digest(cloud_named(name)) for name in CLOUDS}
    assert now == recorded_digests()["clouds"], ADVICE


@pytest.mark.parametrize("strategy", RECORDED)
def test_the_strategy_decides_as_recorded(strategy: str) -> None:
    """The message names the strategy, the clouds with their seeds, and the changed parts."""
    now = {name: decision_digests(strategy, cloud_named(name)) for name in CLOUDS}
    changed = changes(strategy, now, recorded_digests()[strategy])
    assert not changed, "\n".join([*changed, ADVICE])


def test_another_decision_is_found_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The words say where: here another strategy decides in the place of the default one."""
    monkeypatch.setitem(cast("dict[str, Any]", STRATEGIES), "tabu", STRATEGIES["pack"])
    name = "crowded, seed 1"
    now = {name: decision_digests("tabu", cloud_named(name))}
    before = {name: recorded_digests()["tabu"][name]}
    assert changes("tabu", now, before)[0].startswith("tabu, crowded, seed 1: other steps")
    assert changes("tabu", before, before) == []


def test_the_last_bits_of_numbers_do_not_count() -> None:
    """Another library may round them otherwise; a billionth of a number counts."""
    snapshot = cloud_named("crowded, seed 1")

    def with_bids(factor: float) -> str:
        vms = replace(snapshot.vms, bid=snapshot.vms.bid * factor)
        return cloud_digest(replace(snapshot, vms=vms))

    assert with_bids(1 + np.finfo(float).eps) == with_bids(1.0)
    assert with_bids(1 + 1e-7) != with_bids(1.0)
