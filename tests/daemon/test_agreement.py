"""The reader of histories counts accepted requests, not the events of a VM on its host."""

import hypothesis.strategies as st
import pytest
from hypothesis import example, given

from merkatd.embedded.machines.faults import Fault, FaultKind
from tests.daemon.agreement import asked_hosts
from tests.embedded.support import Bench

_HOSTS = 2
_STEPS = ("BOOT*", "SAVE*", "SHUTDOWN*", "MIGRATE", "PROLOG*", "EPILOG*")

_ACTIONS = st.tuples(st.just("action"), st.sampled_from(["suspend", "resume", "poweroff", "stop"]))
_MOVES = st.tuples(st.sampled_from(["deploy", "migrate", "live"]), st.integers(0, _HOSTS - 1))
_ILLS = st.tuples(st.just("fail"), st.sampled_from(_STEPS))
_HOST = st.tuples(st.just("host"), st.sampled_from(["dies", "is cut off", "is back"]))
_WAITS = st.tuples(st.just("wait"), st.sampled_from([0.1, 10.0]))


@given(events=st.lists(st.one_of(_ACTIONS, _MOVES, _ILLS, _HOST, _WAITS, _WAITS), max_size=16))
@example(
    events=[
        ("action", "suspend"),
        ("wait", 10.0),
        ("host", "dies"),
        ("action", "resume"),
        ("wait", 10.0),
        ("host", "is back"),
        ("action", "resume"),
        ("wait", 10.0),
    ]
)
def test_a_history_never_shows_more_than_the_accepted_requests(
    events: list[tuple[str, str | int | float]],
) -> None:
    """This holds for all actions of the owner and all failures of the host."""
    bench = Bench()
    bench.advance(10)  # in a history, a time of zero means "not yet"
    vm = bench.running()
    asked = [0]
    for kind, what in events:
        if _accepted(bench, vm, kind, what) and isinstance(what, int):
            asked.append(what)
    rest = iter(asked)
    seen = asked_hosts(bench.ok("one.vm.info", vm))
    assert all(host in rest for host in seen), f"seen {seen}, asked for {asked}"


def test_each_move_of_a_healthy_vm_is_counted() -> None:
    """They are a deployment, a migration and the migration back."""
    bench = Bench()
    bench.advance(10)  # in a history, a time of zero means "not yet"
    vm = bench.running()
    for host in (1, 0):
        bench.ok("one.vm.migrate", vm, host, True)
        bench.advance(10)
    assert asked_hosts(bench.ok("one.vm.info", vm)) == (0, 1, 0)


def _accepted(bench: Bench, vm: int, kind: str, what: str | float) -> bool:
    match kind:
        case "action":
            return bool(bench.raw("one.vm.action", what, vm)[0])
        case "deploy":
            return bool(bench.raw("one.vm.deploy", vm, what)[0])
        case "migrate" | "live":
            return bool(bench.raw("one.vm.migrate", vm, what, kind == "live")[0])
        case "fail":
            bench.cloud.faults.clear()
            bench.cloud.faults.add(Fault(FaultKind.FAIL, lcm=str(what), count=1))
        case "host" if what == "is back":
            bench.raw("embedded.host.up", 0)
        case "host":
            bench.raw("embedded.host.down", 0, what == "dies")
        case "wait":
            bench.advance(float(what))
        case _:
            pytest.fail(f"no such event: {kind}")
    return False
