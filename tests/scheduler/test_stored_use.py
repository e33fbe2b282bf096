"""The recent use of VMs and hosts outlives the daemon."""

import numpy as np
import pytest
import sqlalchemy as sa

from merkatd.cluster import UsageHistory
from merkatd.database import use_sample_store
from merkatd.scheduler.observation.observed import SAMPLES, RecentUse
from tests.placement.conformance.strategy_clouds import bits
from tests.scheduler.frontend import Frontend
from tests.scheduler.test_recent import RESOURCES, look, use


def history_of(frontend: Frontend) -> UsageHistory:
    """Return the history that the next period's strategies get."""
    latest = frontend.period()
    frontend.clock.advance(60.0)
    history = latest.seen.snapshot.history
    assert history is not None
    return history


def test_a_restarted_daemon_knows_the_use_of_the_last_intervals() -> None:
    """Its first decision has the samples of the daemon before, and a new one."""
    frontend = Frontend(hosts=2)
    for _ in range(3):
        frontend.vm()
    for _ in range(SAMPLES + 3):
        before = history_of(frontend)
    frontend.start_daemon()
    after = history_of(frontend)
    assert after.at_s[:-1].tolist() == before.at_s[1:].tolist()
    assert len(after.at_s) == SAMPLES >= 10
    assert bits(after.vms[:-1]) == bits(before.vms[1:])
    assert bits(after.hosts[:-1]) == bits(before.hosts[1:])
    assert not np.isnan(after.vms[-1]).any(), "the counters go on from the last sample"
    frontend.close()


def test_only_the_newest_samples_are_stored() -> None:
    """Each period adds one and removes the oldest; a repeated observation changes nothing."""
    frontend = Frontend(hosts=1)
    frontend.vm()
    for _ in range(SAMPLES + 4):
        history = history_of(frontend)
    stored = frontend.read(use_sample_store.stored_samples)
    assert list(stored) == history.at_s.tolist()
    samples = frontend.scheduler.world.recent.to_store()
    frontend.read(lambda connection: use_sample_store.keep_samples(connection, samples))
    assert bits(frontend.read(use_sample_store.stored_samples)) == bits(stored)
    frontend.close()


@pytest.mark.parametrize(
    ("away_s", "known"),
    [(60.0, True), (SAMPLES * 60.0, True), (SAMPLES * 60.0 + 1.0, False), (-1.0, False)],
)
def test_old_samples_and_those_of_a_wrong_clock_are_not_used(away_s: float, known: bool) -> None:
    """After a long stop the use of before says nothing about the present."""
    first, at = RecentUse(), {7: 1}
    for number in range(4):
        seen = look(60.0 * number, [1], at)
        first.met(seen, use({7: 60.0 * number}, {7: 300.0}))
    again = RecentUse()
    assert again.is_empty
    again.restore(first.to_store(), 180.0 + away_s, 60.0)
    assert (list(again.to_store()) == []) is not known
    history = again.history(look(180.0, [1], at), RESOURCES)
    assert (history is not None) is known
    if known:
        assert bits(again.to_store()) == bits(first.to_store())


def test_samples_of_before_do_not_replace_those_of_this_daemon() -> None:
    """A daemon that has observed already restores nothing."""
    first, second, at = RecentUse(), RecentUse(), {7: 1}
    first.met(look(0.0, [1], at), use({7: 1.0}, {7: 300.0}))
    second.met(look(60.0, [1], at), use({7: 2.0}, {7: 300.0}))
    second.restore(first.to_store(), 60.0, 60.0)
    assert list(second.to_store()) == [60.0]


def test_a_damaged_table_is_noticed() -> None:
    """A blob that is no sample raises an error with its reason."""
    frontend = Frontend(hosts=1)
    history_of(frontend)
    damage = sa.update(use_sample_store.USE_SAMPLES).values(data=b"none")
    frontend.read(lambda connection: connection.execute(damage).rowcount)
    with pytest.raises(ValueError, match="a blob of arrays must start with"):
        frontend.read(use_sample_store.stored_samples)
    frontend.close()
