"""Templates declare what the application is; wrong declarations are refused with the reason."""

from collections.abc import Iterator
from typing import Any, cast

import pytest

from merkatd.base.toml_reader import MOST_PROBLEMS
from merkatd.fleets.vm_template_text import TemplateError
from merkatd.placement.registry import STRATEGIES
from merkatd.platforms.declarations.application_reader import MOST_STAGES
from merkatd.platforms.declarations.application_terms import (
    ApplicationTerms,
    JobTerms,
    ReplicatedTerms,
    ServiceTerms,
    StageTerms,
)
from merkatd.platforms.declarations.template_time import TemplateTime
from merkatd.platforms.lifecycle.template_reader import parsed, read_stored, read_template
from merkatd.scheduler.base.settings import MarketRules
from tests.platforms.site import VM, Site, template
from tests.scheduler.test_own_allocations import EQUAL

UP_TO = "a number from 0 to 1000000000000"
JOB = """[job]
goal = "2h"

[[job.stage]]
work = 600
greatest_speed = 100
memory = 512

[[job.stage]]
work = 1200
least_speed = 50
greatest_speed = 200"""
NODES = f'[[cluster]]\nname = "nodes"\nleast = 1\ninitial = 2\nmost = 4\ntemplate = """\n{VM}"""'
MONITOR = '\n[cluster.monitor]\nkind = "steps"\nparameters = { log = "l" }'
SECOND = f'\n\n[[cluster]]\nname = "second"\ntemplate = """\n{VM}"""'
SERVICE = '[service]\nresponse_goal = "0.25s"'
REPLICATED = '[replicated]\ntasks = 3\nrun_time = "6h"\nreliability = 0.99'


def declared(text: str, cluster: str = NODES) -> ApplicationTerms | None:
    """Return what a template with this text declares."""
    return read_template(template(application=text, cluster=cluster)).application


def problems_of(text: str, cluster: str = NODES) -> list[str]:
    """Return the problems of a template with this text."""
    with pytest.raises(TemplateError) as caught:
        declared(text, cluster)
    return list(caught.value.problems)


def test_a_template_without_a_declaration_declares_nothing() -> None:
    """Templates of earlier versions mean what they meant."""
    assert declared("") is None


def test_all_keys_of_a_job_are_read() -> None:
    """Work is in core-seconds, speed in percent of a core."""
    assert declared(JOB) == JobTerms(
        goal=TemplateTime(after_s=7200.0),
        stages=(
            StageTerms(work=600.0, least_speed=0.0, greatest_speed=100.0, memory_mib=512.0),
            StageTerms(work=1200.0, least_speed=50.0, greatest_speed=200.0, memory_mib=0.0),
        ),
    )


def test_a_job_needs_no_stages() -> None:
    """Its work is unknown then."""
    assert declared("[job]") == JobTerms()


def test_all_keys_of_a_service_are_read() -> None:
    """The only cluster with a monitor is the measured one."""
    assert declared(SERVICE, NODES + MONITOR) == ServiceTerms(response_goal_s=0.25, cluster="nodes")
    named = f'{SERVICE}\ncluster = "second"\nwork_per_request = 0.02'
    assert declared(named, NODES + MONITOR + SECOND + MONITOR) == ServiceTerms(
        response_goal_s=0.25, cluster="second", work_per_request=0.02
    )


def test_all_keys_of_replicated_tasks_are_read() -> None:
    """Each VM is a task."""
    assert declared(REPLICATED) == ReplicatedTerms(tasks=3, run_time_s=21_600.0, reliability=0.99)


STAGE = "[job]\n[[job.stage]]\nwork = 1\ngreatest_speed = 100\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[jobs]", "jobs: unknown key; did you mean 'job'?"),
        ("[job]\ngaol = '1h'", "job.gaol: unknown key; did you mean 'goal'?"),
        ("[job]\ngoal = 'soon'", "job.goal = 'soon': must be a time after the submission"),
        ("[job]\nstage = 3", "job.stage = 3: must be an array of tables"),
        ("[[job.stage]]\ngreatest_speed = 1", "job.stage[1].work: is missing"),
        ("[[job.stage]]\nwork = 1", "job.stage[1].greatest_speed: is missing"),
        ("[[job.stage]]\nwork = 0\ngreatest_speed = 1", "job.stage[1].work = 0: must be above 0"),
        (
            "[[job.stage]]\nwork = 1e308\ngreatest_speed = 1",
            f"job.stage[1].work = 1e+308: must be {UP_TO}",
        ),
        ("[[job.stage]]\nwork = nan\ngreatest_speed = 1", UP_TO),
        ("[[job.stage]]\nwork = -1\ngreatest_speed = 1", UP_TO),
        ("[[job.stage]]\nwork = true\ngreatest_speed = 1", UP_TO),
        ("[[job.stage]]\nwork = 1\ngreatest_speed = 0", "greatest_speed = 0: must be above 0"),
        (f"{STAGE}memory = -5", f"job.stage[1].memory = -5: must be {UP_TO}"),
        (
            f"{STAGE}least_speed = 101",
            "job.stage[1].least_speed = 101: must be at most greatest_speed (100)",
        ),
        (f"{STAGE}speed = 1", "job.stage[1].speed: unknown key"),
        (
            REPLICATED.replace("3", "0"),
            "tasks = 0: must be a whole number from 1 to 4, ",
        ),
        (
            REPLICATED.replace("3", "5"),
            "tasks = 5: must be a whole number from 1 to 4, ",
        ),
        (
            REPLICATED.replace("3", "2.5"),
            "= 2.5: must be a whole number from 1 to 4, the most VMs of all clusters",
        ),
        (REPLICATED.replace('"6h"', '"0s"'), "run_time = '0s': must be above 0"),
        (REPLICATED.replace("0.99", "0"), "reliability = 0: must be a number above 0 and below 1"),
        (REPLICATED.replace("0.99", "1"), "reliability = 1: must be a number above 0 and below 1"),
        (REPLICATED.replace("0.99", "1e308"), "must be a number above 0 and below 1"),
        (REPLICATED.replace("0.99", "nan"), "must be a number above 0 and below 1"),
        ("[replicated]", "replicated.tasks: is missing"),
        ("[[replicated]]", "replicated: must be a table"),
        (
            f"{JOB}\n{REPLICATED}",
            "job and replicated: a template may have only one of job, service,",
        ),
        (SERVICE, "service: no cluster has a monitor; expected a table [cluster.monitor]"),
    ],
)
def test_errors_name_the_accepted_values(text: str, message: str) -> None:
    """Each wrong declaration has its own error text."""
    assert any(message in problem for problem in problems_of(text)), problems_of(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[service]", "service.response_goal: is missing"),
        (SERVICE.replace("0.25s", "0s"), "response_goal = '0s': must be above 0"),
        (f"{SERVICE}\nwork_per_request = 0", "work_per_request = 0: must be above 0"),
        (f"{SERVICE}\nwork_per_request = -1", UP_TO),
        (
            f'{SERVICE}\ncluster = "second"',
            "service.cluster = 'second': must be a cluster with a monitor: nodes",
        ),
        (
            f'{SERVICE}\ncluster = "third"',
            "service.cluster = 'third': must be a cluster with a monitor: nodes",
        ),
    ],
)
def test_a_service_needs_a_monitor_that_measures_it(text: str, message: str) -> None:
    """The error names the clusters that have one."""
    problems = problems_of(text, NODES + MONITOR + SECOND)
    assert any(message in problem for problem in problems), problems


def test_a_service_names_one_of_several_monitors() -> None:
    """The daemon does not guess."""
    assert problems_of(SERVICE, NODES + MONITOR + SECOND + MONITOR) == [
        "service.cluster: is missing; expected one of nodes, second"
    ]


def test_all_problems_are_reported_at_once() -> None:
    """Those of the declaration are among them."""
    text = "[job]\ngoal = 3\n[[job.stage]]\nwork = -1\ngreatest_speed = 0"
    assert len(problems_of(text)) == 3


@pytest.mark.parametrize("many", [MOST_STAGES, MOST_STAGES + 1])
def test_a_job_has_a_limited_number_of_stages(many: int) -> None:
    """Ten thousand stages do not even fit into a template."""
    text = "[job]\n" + "[[job.stage]]\nwork=1\ngreatest_speed=1\n" * many
    if many == MOST_STAGES:
        terms = declared(text)
        assert isinstance(terms, JobTerms)
        assert terms.work == MOST_STAGES
    else:
        assert f"job.stage: must be at most {MOST_STAGES} tables [[job.stage]]" in problems_of(text)
    assert len("[[job.stage]]\nwork=1\ngreatest_speed=1\n" * 10_000) > 10 * 32_768
    wrong = "[job]\n" + "[[job.stage]]\nwork=-1\ngreatest_speed=1\n" * MOST_STAGES
    assert len(problems_of(wrong)) == MOST_PROBLEMS


def test_a_declaration_stands_for_the_controller() -> None:
    """Without a declaration, a template must name its controller."""
    assert read_template(template(application=JOB, controller="")).controller == "none"
    named = read_template(template(application=JOB, controller='[controller]\nkind = "notes"'))
    assert named.controller == "notes"
    with pytest.raises(TemplateError, match=r"controller\.kind: is missing"):
        read_template(template(controller=""))
    with pytest.raises(TemplateError, match=r"controller\.kind: is missing"):
        read_template(template(application=JOB, controller="[controller]\nparameters = {}"))


def test_a_stored_declaration_that_is_refused_today_counts_as_none() -> None:
    """Its platform goes on, with its clusters and its budget."""
    text = template(application=JOB.replace("600", "1e300"))
    stored = read_stored(text)
    assert stored.application is None
    assert (stored.name, stored.clusters[0].most) == ("weather", 4)
    assert parsed(text).application is None
    assert read_stored(template(application=JOB)).application == declared(JOB)


GOALS = (
    ('goal = "0s"', "", "", "job.goal: .* has passed"),
    ("goal = 1970-01-02T00:00:00Z", "", "", "job.goal: 1970-01-02T00:00:00Z has passed"),
    ('goal = "2h"', 'not_before = "2h"', "", "job.goal: must be after start.not_before"),
    ("goal = 1970-01-12T15:46:40Z", 'not_before = "2h"', "", "must be after start.not_before"),
    ('goal = "2h"', "", 'deadline = "1h"', "job.goal: must be at most slo.deadline"),
)


@pytest.mark.parametrize(("goal", "start", "slo", "message"), GOALS)
def test_a_goal_that_can_not_be_reached_is_refused(
    site: Site, goal: str, start: str, slo: str, message: str
) -> None:
    """It lies before the start or after the end, in whatever form the times are."""
    with pytest.raises(TemplateError, match=message):
        site.submit(
            application=f"[job]\n{goal}",
            start=f"[start]\n{start}" if start else "",
            slo=f"[slo]\n{slo}" if slo else "",
        )


DEADLINES = (
    ('deadline = "0s"', "", "slo.deadline: .* has passed"),
    ("deadline = 1970-01-02T00:00:00Z", "", "slo.deadline: 1970-01-02T00:00:00Z has passed"),
    ('deadline = "2h"', 'not_before = "2h"', "slo.deadline: must be after start.not_before"),
    ('deadline = "1h"', 'not_before = "2h"', "slo.deadline: must be after start.not_before"),
)


@pytest.mark.parametrize(("slo", "start", "message"), DEADLINES)
@pytest.mark.parametrize("application", ["", "[job]"])
def test_a_deadline_before_the_start_is_refused(
    site: Site, slo: str, start: str, message: str, application: str
) -> None:
    """Otherwise the platform would be cancelled as soon as it may start."""
    with pytest.raises(TemplateError, match=message):
        site.submit(
            application=application,
            start=f"[start]\n{start}" if start else "",
            slo=f"[slo]\n{slo}",
        )


def test_a_goal_within_its_bounds_is_accepted(site: Site) -> None:
    """It may be the deadline itself."""
    platform = site.submit(
        application='[job]\ngoal = "2h"',
        start='[start]\nnot_before = "119m"',
        slo='[slo]\ndeadline = "2h"',
    )
    assert site.platform(platform).state == "submitted"


class TestOwnAllocations:
    """A market whose strategy states what each VM gets."""

    @pytest.fixture
    def site(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
        """Yield a site with such a market, besides one whose bids count."""
        monkeypatch.setitem(cast("dict[str, Any]", STRATEGIES), "equal", EQUAL)
        equal = MarketRules(strategy="equal")
        bids = MarketRules(name="bids", cluster_names=frozenset({"bids"}))
        made = Site(markets=(equal, bids))
        yield made
        made.agree()
        made.close()

    def test_a_bidding_controller_is_refused(self, site: Site) -> None:
        """The reason names the market, its strategy and the way out."""
        with pytest.raises(TemplateError) as raised:
            site.submit()
        assert str(raised.value) == (
            "controller.kind must be none in market default (got 'notes'): its strategy equal"
            " states what each VM gets, so bids have no effect; leave out [controller] in a"
            " template with one of job, service, replicated"
        )

    def test_other_markets_take_it(self, site: Site) -> None:
        """There it bids as ever."""
        platform = site.submit(top='name = "weather"\nmarket = "bids"', application=JOB)
        assert site.platform(platform).state == "submitted"

    def test_a_platform_needs_no_controller(self, site: Site) -> None:
        """Its VMs are created, get what the strategy states, and are replaced."""
        platform = site.submit(application=JOB, controller="")
        site.until(platform, "running")
        assert site.notes.started == []
        first, second = sorted(site.vms(platform))
        assert site.limits(first).vcpu_quota == 30_000
        site.bench.ok("one.vm.action", "terminate-hard", first)
        site.periods(6)
        assert len(site.vms(platform)) == 2
        assert second in site.vms(platform)
        assert first not in site.vms(platform)
