"""A batch system that grows and shrinks: a queue in virtual time with an obedient head."""

from itertools import pairwise

from hypothesis import example, given, settings
from hypothesis import strategies as st

from merkatd.protocol.platform_messages import GiveUp
from tests.controllers.applications.batch_site import Site
from tests.lengths import shorten


def test_the_system_grows_carefully_and_shrinks_without_work() -> None:
    """It grows by two at a time, never during a start; no job is lost."""
    site = Site(waiting=[5] * 30)
    sizes = [site.pass_a_period() for _ in range(60)]
    assert max(sizes) > 6
    assert all(later - before <= 2 for before, later in pairwise(sizes))
    assert site.waiting == []
    assert sizes[-1] == 0
    assert site.lost == 0
    assert any("delete nodename" in command for command in site.heard)


def test_a_high_price_removes_workers_but_no_jobs() -> None:
    """Workers are drained first within the budget; none is requested right after."""
    site = Site(waiting=[8] * 200, balance=20_000.0)
    for _ in range(20):
        many = site.pass_a_period()
    site.price = 0.05
    sizes, bids = [], []
    for _ in range(30):
        sizes.append(site.pass_a_period())
        bids.append(sum(sum(bid.values()) for bid in site.bids.values()))
    assert sizes[-1] < many
    assert site.drained
    assert site.lost == 0
    assert max(bids) <= 20_000.0 / 1440 * (1 + 1e-6)


def test_a_waiting_limit_delays_growth_until_jobs_wait_too_long() -> None:
    """The aim `throughput` grows at once."""
    patient = Site(waiting=[50] * 4, parameters={"aim": "wait", "target_s": 600.0}, least=1)
    eager = Site(waiting=[50] * 4, parameters={"aim": "throughput"}, least=1)
    for site in (patient, eager):
        site.workers[2] = []
        for _ in range(6):
            site.pass_a_period()
    assert len(patient.workers) == 1
    assert len(eager.workers) > 1


def test_a_market_without_a_host_takes_no_worker_away() -> None:
    """All hosts may be out of OpenNebula's sight for an hour, while the jobs run on."""
    site = Site(waiting=[200] * 6)
    for _ in range(20):
        before = site.pass_a_period()
    bids, site.capacity = dict(site.bids), 0.0
    assert [site.pass_a_period() for _ in range(60)] == [before] * 60
    assert site.bids == bids
    site.capacity = 1e6
    for _ in range(200):
        site.pass_a_period()
    assert site.waiting == []
    assert site.lost == 0


def test_a_head_as_large_as_its_market_bids_what_it_may_spend() -> None:
    """No finite bid buys its full size: on the only host it has all cores."""
    site = Site(balance=1_440.0, capacity=100.0)
    for _ in range(3):
        site.pass_a_period()
    (bid,) = site.bids.values()
    assert 0 < sum(bid.values()) <= 1.0 + 1e-6
    assert min(bid.values()) > 0


def test_a_good_that_is_not_sold_any_more_stops_nothing() -> None:
    """The template of a platform may be older than the site's configuration."""
    site = Site(waiting=[5] * 10, missing="network")
    for _ in range(40):
        site.pass_a_period()
    assert site.waiting == []


def test_an_invalid_template_is_given_up_at_once() -> None:
    """The reason names the accepted values."""
    for parameters, why in (
        ({"workers": "nobody"}, "(got head, workers)"),
        ({"batch": "maui"}, "slurm, gridengine"),
    ):
        site = Site(parameters=parameters)
        (body,) = site.asked
        assert isinstance(body, GiveUp)
        assert why in body.reason


@settings(deadline=None, max_examples=shorten(25, 8))
@given(
    st.integers(0, 4),
    st.integers(0, 3),
    st.lists(st.lists(st.integers(1, 4), max_size=8), min_size=20, max_size=40),
)
@example(3, 0, [[3] * 2, *[[]] * 5, [1] * 8])
@example(2, 1, [[4] * 2, *[[]] * 6, [1] * 8])
def test_a_worker_that_starts_counts(
    made_after: int, joins_after: int, arrivals: list[list[int]]
) -> None:
    """No worker is ended right after its request, whatever the duration of its start."""
    site = Site(made_after=made_after, joins_after=joins_after)
    sizes = [0]
    for jobs in (*arrivals, *[[]] * 80):
        site.waiting += jobs
        sizes.append(site.pass_a_period())
    assert all(later - before <= 2 for before, later in pairwise(sizes))
    assert site.waiting == []
    assert (site.undrained, site.lost, sizes[-1]) == ([], 0, 0)


def test_prices_that_change_during_starts_cost_no_job() -> None:
    """The controller requests workers, finds them too expensive and requests them again."""
    site = Site(waiting=[6] * 300, balance=20_000.0, made_after=2, joins_after=1)
    for period in range(120):
        site.price = 0.05 if period % 20 >= 12 else 0.01
        site.pass_a_period()
    assert site.drained
    assert (site.undrained, site.lost) == ([], 0)
