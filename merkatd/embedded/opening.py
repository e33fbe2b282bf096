"""Opening a cloud: a new one from its plan, or the one that a state file holds."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import numpy as np

from merkatd.embedded import cloudfile
from merkatd.embedded.clock import ScaledClock, Time
from merkatd.embedded.cloud import Cloud
from merkatd.embedded.settings import Settings

if TYPE_CHECKING:
    from merkatd.embedded.store import SqliteStore

_EVENTS_PER_TURN = 100


def open_cloud(
    clock: Time, plan: cloudfile.Plan, password: str, seed: int, store: SqliteStore | None
) -> Cloud:
    """The cloud in the store, or a new one made as planned and followed by the store."""
    settings = Settings(events_per_turn=_EVENTS_PER_TURN)
    cloud = Cloud(clock, np.random.default_rng(_seed(seed, store)), settings)
    if store is not None and not store.empty:
        store.restore(cloud)
        return cloud
    if store is not None:
        store.follow(cloud)
    cloud.found(password)
    cloudfile.build(cloud, plan)
    cloud.commit()
    return cloud


def clock_of(speed: float, store: SqliteStore | None, reactor: Time) -> ScaledClock:
    """The world's clock: it went on while the process was away, and never jumps back."""
    wall_s = world_s = time.time()
    if store is not None:
        old_wall_s, old_world_s, old_speed = json.loads(
            store.fact("clock", json.dumps([wall_s, world_s, speed]))
        )
        world_s = old_world_s + max(wall_s - old_wall_s, 0.0) * old_speed
        store.set_fact("clock", json.dumps([wall_s, world_s, speed]))
    return ScaledClock(reactor, speed, world_s)


def _seed(seed: int, store: SqliteStore | None) -> list[int]:
    """A seed for this life of the process, so that one restored doesn't draw the same again."""
    if store is None:
        return [seed]
    life = int(store.fact("life", "0")) + 1
    store.set_fact("life", str(life))
    return [seed, life]
