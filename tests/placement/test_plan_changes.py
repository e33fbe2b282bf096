"""Steps of several sources become one plan: every pair of kinds for one VM, and what comes out."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.cluster import (
    Balloon,
    Create,
    Deploy,
    Limit,
    Migrate,
    OnHost,
    Pin,
    Plan,
    Resume,
    Sleep,
    Snapshot,
    Step,
    Stop,
    Suspend,
    Terminate,
    Throttle,
    Wake,
)
from merkatd.cluster import plan as plan_module
from merkatd.cluster.columns import NO_MARKET
from merkatd.placement import STRATEGIES
from merkatd.placement.changes.plan_changes import (
    joined_plan,
    of_this_period,
    with_hosts_at_rest,
    without_arrivals,
)
from merkatd.placement.markets_in_turn import DecisionBasis, MarketBasis, decide_again
from tests.clouds import cloud, hosts_table, vms_table
from tests.scheduler.scripted_strategy import scripted

KINDS = (
    *("create", "deploy", "migrate", "cold", "suspend", "resume", "elsewhere", "stop"),
    *("terminate", "hard", "limit", "pin", "balloon", "throttle"),
)
"""All kinds of steps for VMs, with cold migrations, resumptions on another host and hard
terminations as kinds of their own."""

PAIRS = """
create     create     both
create     deploy     both
create     migrate    both
create     cold       both
create     suspend    both
create     resume     both
create     elsewhere  both
create     stop       both
create     terminate  both
create     hard       both
create     limit      both
create     pin        both
create     balloon    both
create     throttle   both
deploy     deploy     first
deploy     migrate    deploy
deploy     cold       deploy
deploy     suspend    suspend
deploy     resume     resume
deploy     elsewhere  elsewhere
deploy     stop       stop
deploy     terminate  terminate
deploy     hard       hard
deploy     limit      both
deploy     pin        both
deploy     balloon    both
deploy     throttle   both
migrate    migrate    first
migrate    cold       first
migrate    suspend    suspend
migrate    resume     resume
migrate    elsewhere  elsewhere
migrate    stop       stop
migrate    terminate  terminate
migrate    hard       hard
migrate    limit      both
migrate    pin        both
migrate    balloon    both
migrate    throttle   both
cold       cold       first
cold       suspend    suspend
cold       resume     resume
cold       elsewhere  elsewhere
cold       stop       stop
cold       terminate  terminate
cold       hard       hard
cold       limit      both
cold       pin        both
cold       balloon    both
cold       throttle   both
suspend    suspend    first
suspend    resume     suspend
suspend    elsewhere  suspend
suspend    stop       stop
suspend    terminate  terminate
suspend    hard       hard
suspend    limit      both
suspend    pin        both
suspend    balloon    both
suspend    throttle   both
resume     resume     first
resume     elsewhere  first
resume     stop       stop
resume     terminate  terminate
resume     hard       hard
resume     limit      both
resume     pin        both
resume     balloon    both
resume     throttle   both
elsewhere  elsewhere  first
elsewhere  stop       stop
elsewhere  terminate  terminate
elsewhere  hard       hard
elsewhere  limit      both
elsewhere  pin        both
elsewhere  balloon    both
elsewhere  throttle   both
stop       stop       first
stop       terminate  terminate
stop       hard       hard
stop       limit      both
stop       pin        both
stop       balloon    both
stop       throttle   both
terminate  terminate  first
terminate  hard       hard
terminate  limit      both
terminate  pin        both
terminate  balloon    both
terminate  throttle   both
hard       hard       first
hard       limit      both
hard       pin        both
hard       balloon    both
hard       throttle   both
limit      limit      first
limit      pin        both
limit      balloon    both
limit      throttle   both
pin        pin        first
pin        balloon    both
pin        throttle   both
balloon    balloon    first
balloon    throttle   both
throttle   throttle   first
"""


def step_of(kind: str, reason: str, vm: int = 7) -> Step:
    """Return a step of this kind on the VM; each creation has a key of its own."""
    of_it: dict[str, Any] = {"period": 3, "vm": vm, "reason": reason}
    quota: dict[str, Any] = dict.fromkeys(("vcpu_quota_us", "global_quota_us"))
    makers: Mapping[str, Callable[[], Step]] = {
        "create": lambda: Create(period=3, key=reason, template="", owner=2, reason=reason),
        "deploy": lambda: Deploy(**of_it, host=1),
        "migrate": lambda: Migrate(**of_it, source=0, host=1),
        "cold": lambda: Migrate(**of_it, source=0, host=1, live=False),
        "suspend": lambda: Suspend(**of_it),
        "resume": lambda: Resume(**of_it),
        "elsewhere": lambda: Resume(**of_it, host=1),
        "stop": lambda: Stop(**of_it),
        "terminate": lambda: Terminate(**of_it),
        "hard": lambda: Terminate(**of_it, hard=True),
        "limit": lambda: Limit(**of_it, **quota, quota_period_us=1, shares=1),
        "pin": lambda: Pin(**of_it, cores=((1,),)),
        "balloon": lambda: Balloon(**of_it, memory_mib=64),
        "throttle": lambda: Throttle(**of_it, network_kb_s=1),
    }
    return makers[kind]()


ROWS = [tuple(line.split()) for line in PAIRS.split("\n") if line]


def test_every_pair_is_listed() -> None:
    """Once each, in the order of the kinds; no kind of step for VMs is missing."""
    assert [row[:2] for row in ROWS] == list(combinations_with_replacement(KINDS, 2))
    made = {type(step_of(kind, "a test")) for kind in KINDS}
    kinds = {each for each in vars(plan_module).values() if isinstance(each, type)}
    assert made == {each for each in kinds if issubclass(each, Step)} - {Step, Sleep, Wake}


@pytest.mark.parametrize(("one", "two", "outcome"), ROWS)
@pytest.mark.parametrize("turned", [False, True], ids=["", "turned"])
def test_a_pair_of_steps_for_a_vm(one: str, two: str, outcome: str, turned: bool) -> None:
    """The order of the sources decides only between two steps of one kind."""
    steps = [step_of(one, "of the first source"), step_of(two, "of the second source")]
    named = {one: steps[0], two: steps[1]}
    if turned:
        steps.reverse()
    changed = joined_plan(*([step] for step in steps))
    wanted = {
        "both": steps,
        "first": steps[:1],
    }.get(outcome) or [named[outcome]]
    assert list(changed.plan) == wanted
    assert changed.reasons == {}


def test_a_hard_termination_replaces_a_request_to_the_guest() -> None:
    """Whichever source is earlier; the step's identity is the same."""
    soft, hard = (Terminate(period=3, vm=7, reason="", hard=hard) for hard in (False, True))
    behind = Deploy(period=3, vm=8, host=0, reason="", after=(soft.id,))
    assert list(joined_plan([soft], [hard]).plan) == [hard]
    assert list(joined_plan([hard, behind], [soft]).plan) == [hard, behind]


@pytest.mark.parametrize("kind", ["terminate", "stop"])
def test_a_step_waits_for_the_one_that_frees_the_host_instead(kind: str) -> None:
    """VM 8 starts after the end of VM 7, whose migration was to make room."""
    leaves, ends = step_of("migrate", "to make room"), step_of(kind, "its tenant said so")
    comes = Deploy(period=3, vm=8, host=0, reason="new", after=(leaves.id,))
    changed = joined_plan([leaves, comes], [ends])
    (start,) = changed.plan.of(Deploy)
    assert start.after == (ends.id,)
    assert changed.plan.steps.index(ends) < changed.plan.steps.index(start)
    assert changed.reasons == {}


@pytest.mark.parametrize("kind", ["suspend", "resume", "deploy"])
def test_a_step_without_room_is_taken_out(kind: str) -> None:
    """And so are all behind it; each VM's owner learns which VM keeps its room, and why."""
    leaves, rests = step_of("migrate", "to make room"), step_of(kind, "its owner owes")
    comes = Migrate(period=3, vm=8, source=1, host=0, reason="", after=(leaves.id,))
    limited = replace(step_of("limit", "", vm=8), after=(comes.id,))
    chained = Deploy(period=3, vm=9, host=1, reason="", after=(comes.id,))
    other = step_of("stop", "", vm=10)
    changed = joined_plan([leaves, comes, limited, chained, other], [rests])
    assert set(changed.plan) == {rests, other}
    why = "waits for VM 7, which keeps its room: its owner owes"
    assert changed.reasons == {8: why, 9: why}


@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 4)), max_size=8, unique=True),
        max_size=4,
    )
)
def test_each_vm_keeps_one_operation(sources: list[list[tuple[str, int]]]) -> None:
    """The strongest of all; no limit is lost, and joining again changes nothing."""
    steps = [
        [step_of(kind, f"{at}.{row}", vm) for row, (kind, vm) in enumerate(source)]
        for at, source in enumerate(sources)
    ]
    plan = joined_plan(*steps).plan
    said = [step for source in steps for step in source]
    operations = [step for step in plan if not isinstance(step, OnHost | Create)]
    assert len({step.vm for step in operations}) == len(operations)
    order = ["terminate", "stop", "suspend", "resume", "deploy", "migrate"]
    for vm in range(5):
        kinds = {step.kind for step in said if step.vm == vm} & set(order)
        kept = [step.kind for step in operations if step.vm == vm]
        assert kept == sorted(kinds, key=order.index)[:1]
    kept_aside = {step.id for step in plan if isinstance(step, OnHost | Create)}
    assert kept_aside == {step.id for step in said if isinstance(step, OnHost | Create)}
    assert joined_plan(plan).plan == plan


def test_limits_after_an_arrival_belong_to_the_next_period() -> None:
    """Also those behind other limits."""
    comes = step_of("deploy", "")
    limit = replace(step_of("limit", ""), after=(comes.id,))
    pin = Pin(period=3, vm=7, reason="", cores=((1,),), after=(limit.id,))
    now = step_of("balloon", "", vm=8)
    assert of_this_period(Plan((now, comes, limit, pin))).steps == (now, comes)


def test_steps_that_depend_on_an_arrival_are_dropped_with_it() -> None:
    """Also in a chain; other steps of these VMs stay."""
    comes = Migrate(period=1, vm=0, reason="", source=1, host=0)
    starts = Deploy(period=1, vm=1, reason="", host=0)
    needs = Migrate(period=1, vm=2, reason="", source=0, host=1, after=(comes.id,))
    chained = Deploy(period=1, vm=3, reason="", host=1, after=(needs.id,))
    other = Migrate(period=1, vm=4, reason="", source=0, host=1)
    resumed = Resume(period=1, vm=0, reason="")
    stopped = Stop(period=1, vm=1, reason="")
    plan = Plan((resumed, stopped, comes, starts, needs, chained, other))
    assert without_arrivals(plan, {0, 1}).steps == (resumed, stopped, other)
    assert without_arrivals(plan, {2}).steps == (resumed, stopped, comes, starts, other)


def resting(**columns: Any) -> Snapshot:
    """Return three hosts that can sleep, and a VM with these columns."""
    table = hosts_table(np.full((3, 1), 400.0))
    hosts = replace(table, can_sleep=np.ones(3, dtype=bool))
    vms = vms_table(np.array([2]), np.ones((1, 1)), np.ones((1, 1)))
    return cloud(hosts, replace(vms, **columns))


def test_a_host_that_a_vm_is_leaving_stays_awake() -> None:
    """So does the host to which it goes; the third may sleep, but not twice."""
    snapshot = resting(source=np.array([0]))
    steps = [Sleep(period=1, host=host, reason="to save power") for host in (0, 1, 2)]
    changed = with_hosts_at_rest(snapshot, Plan(tuple(steps)))
    assert list(changed.plan) == [steps[1]]
    assert changed.reasons == {0: "VM 0 is on it", 2: "VM 0 is on it"}
    wakes = Wake(period=1, host=1, reason="to have room")
    changed = with_hosts_at_rest(snapshot, Plan((steps[1], wakes)))
    assert list(changed.plan) == [steps[1]]
    assert with_hosts_at_rest(snapshot, Plan((steps[1],)), {1}).plan == Plan()


def test_a_host_outside_all_markets_or_the_cloud_is_not_switched_off() -> None:
    """Other software uses the one, and the other is gone; the rest of the plan holds."""
    snapshot = resting()
    hosts = replace(snapshot.hosts, market=np.array([0, NO_MARKET, 0]))
    steps = [Sleep(period=1, host=host, reason="to save power") for host in (0, 1, 7)]
    changed = with_hosts_at_rest(replace(snapshot, hosts=hosts), Plan(tuple(steps)))
    assert list(changed.plan) == [steps[0]]
    assert changed.reasons == {1: "it is in no market", 7: "there is no such host"}


def test_a_file_shows_what_the_daemon_leaves_out() -> None:
    """A decision from a saved snapshot has the same steps on hosts."""
    snapshot = resting()
    with scripted() as script:
        script.steps = lambda seen: [
            Sleep(period=seen.period, host=host, reason="to save power") for host in (1, 2)
        ]
        settings = STRATEGIES["tabu"].defaults
        basis = DecisionBasis(0, (MarketBasis("default", "tabu", settings),))
        decision = decide_again(snapshot, basis)
    assert [step.host for step in decision.plan.of(Sleep)] == [1]
    assert decision.left_hosts == {2: "VM 0 is on it"}
