"""Memories of strategies and the seed of decisions: kept, never mixed up, and carried over."""

import json
import time
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from merkatd.database import migrations
from merkatd.database.base.engine import make_engine
from merkatd.database.decision_basis import MemoryOwner, keep, memories, seed
from tests.machine_speed import slowness

OWN = MemoryOwner("racks", "groups", 2)
REMEMBERED = {"wanted": {"7": 3}, "anew_s": [60.0, 120.0], "asked": "a]b"}


def test_a_memory_is_read_as_it_was_kept(connection: sa.Connection) -> None:
    """Plain values and arrays keep their types and shapes; only the newest memory remains."""
    keep(connection, 1, {OWN: {"old": 1}})
    views = np.arange(12, dtype=np.int32).reshape(4, 3)
    keep(connection, 2, {OWN: {**REMEMBERED, "views": views}})
    read = dict(memories(connection, [OWN])["racks"])
    array = read.pop("views")
    assert read == REMEMBERED
    assert array.dtype == np.int32
    np.testing.assert_array_equal(array, views)


@pytest.mark.parametrize(
    "other",
    [OWN._replace(market="annex"), OWN._replace(strategy="tabu"), OWN._replace(version=1)],
)
def test_another_owner_never_gets_it(connection: sa.Connection, other: MemoryOwner) -> None:
    """Another market, strategy or version begins without a memory."""
    keep(connection, 1, {OWN: REMEMBERED})
    assert memories(connection, [other]) == {}
    assert memories(connection, [other, OWN]) == {"racks": REMEMBERED}


def test_nothing_remains_of_a_strategy_that_remembers_nothing(connection: sa.Connection) -> None:
    """An empty memory takes no row, and neither does a market that has gone."""
    keep(connection, 1, {OWN: REMEMBERED, OWN._replace(market="annex"): REMEMBERED})
    keep(connection, 2, {OWN: {}})
    assert connection.scalar(sa.text("SELECT COUNT(*) FROM strategy_memories")) == 0


def test_large_arrays_are_kept_fast(connection: sa.Connection) -> None:
    """100,000 views of 20 peers take less than 50 ms."""
    views = np.random.default_rng(0).integers(0, 100_000, (100_000, 20), dtype=np.int32)
    took_s = []
    for period in (1, 2, 3):
        begun_s = time.process_time()
        keep(connection, period, {OWN: {"views": views}})
        took_s.append(time.process_time() - begun_s)
    assert min(took_s) < 0.05 * slowness()
    np.testing.assert_array_equal(memories(connection, [OWN])["racks"]["views"], views)


@pytest.mark.parametrize("value", [float("nan"), object(), np.array([object()])])
def test_what_can_not_be_stored_is_refused(connection: sa.Connection, value: Any) -> None:
    """A strategy that remembers such a value fails, instead of reading it differently later."""
    with pytest.raises((TypeError, ValueError)):
        keep(connection, 1, {OWN: {"value": value}})


def test_each_cloud_has_a_seed_of_its_own() -> None:
    """The seed is drawn once, when the tables are made, and an upgrade does not change it."""
    seeds = []
    for _ in range(2):
        engine = make_engine("sqlite://")
        migrations.upgrade(engine)
        with engine.connect() as connection:
            seeds.append(seed(connection))
        migrations.upgrade(engine)
        with engine.connect() as connection:
            assert seed(connection) == seeds[-1]
        engine.dispose()
    assert 0 not in seeds
    assert seeds[0] != seeds[1]


def test_an_upgrade_carries_the_newest_memories_over(url: str) -> None:
    """The group scheduler does not group all VMs anew because of an upgrade."""
    groups = {"version": 1, "markets": {"racks": REMEMBERED}}
    engine = make_engine(url)
    migrations.upgrade(engine, "0016")
    with engine.begin() as connection:
        for number, text in ((1, "{}"), (2, json.dumps({"default": {}, "racks": groups}))):
            connection.execute(
                sa.text(
                    "INSERT INTO periods (number, state, started_s, observed_s, hosts, vms,"
                    " strategy, memory) VALUES (:number, 'charged', 0, 0, 1, 1, 'tabu+groups',"
                    " :text)"
                ),
                {"number": number, "text": text},
            )
    migrations.upgrade(engine)
    owners = [MemoryOwner("default", "tabu", 1), MemoryOwner("racks", "groups", 1)]
    with engine.connect() as connection:
        assert memories(connection, owners) == {"racks": {"markets": {"racks": REMEMBERED}}}
    engine.dispose()
