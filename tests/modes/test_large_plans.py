"""Approved plans: their results after the clock is set, their log, and their work."""

from typing import Any

import pytest
from twisted.logger import capturedLogs

from merkatd.database.scheduler.order_store import Mode
from merkatd.scheduler.execution import approval, execute, starting_guests
from merkatd.service import modes
from tests.modes.site import Site
from tests.modes.test_ask import current_plan, placements
from tests.scheduler.beside import Beside


class SetBack(Site):
    """A site whose wall clock can be set back."""

    back_s = 0.0

    def wall_s(self) -> float:
        """Return the time by the wall clock."""
        return super().wall_s() - self.back_s


def test_a_clock_that_is_set_back_after_the_approval_hides_no_result() -> None:
    """A day's step back: the plan is carried out once, and has the results of its steps."""
    site = SetBack()
    site.mode(Mode.ASK)
    for _ in range(2):
        site.vm()
    site.minutes(2)
    site.ask("approve_plan", plan=1, who="root")
    site.back_s = 86_400.0
    site.minutes(4)
    plan = current_plan(site)
    assert plan["state"] == "done"
    assert [step["became"] for step in plan["steps"]] == ["confirmed", "confirmed"]
    assert placements(site) == [("deploy", 0), ("deploy", 1)]
    site.close()


def test_the_log_has_few_lines_about_a_plan_that_is_not_done(site: Site) -> None:
    """The plan itself has the reasons of all steps."""
    site.mode(Mode.ASK)
    vms = [site.vm(CPU=0.1, VCPU=1, MEMORY=64) for _ in range(30)]
    site.minutes(2)
    site.ask("approve_plan")
    for vm in vms:
        site.bench.ok("one.vm.action", "hold", vm)
    with capturedLogs() as logs:
        site.minutes(2)
    plan = current_plan(site)
    assert all(str(step["became"]).startswith("not done") for step in plan["steps"])
    lines = [log for log in logs if str(log.get("log_format", "")).startswith("Plan ")]
    assert len(lines) == 21
    assert lines[-1]["count"] == len(plan["steps"]) - 20 == 10


def test_a_plan_is_handled_beside_the_reactor(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan of thousands of steps stops no other request."""
    beside = Beside()
    on_the_reactor: list[str] = []
    functions: list[tuple[Any, str]] = [
        *((approval, name) for name in ("asked_steps", "with_effects", "_left", "_log_left")),
        *((execute, "_approved_scene"), (modes, "standing_plan_of"), (starting_guests, "_leaving")),
    ]
    seen = set()
    for where, name in functions:
        real = getattr(where, name)

        def counted(*given: Any, real: Any = real, name: str = name) -> Any:
            seen.add(name)
            if not beside.busy:
                on_the_reactor.append(name)
            return real(*given)

        monkeypatch.setattr(where, name, counted)
    site = Site(executor=beside)
    site.mode(Mode.ASK)
    site.vm()
    site.minutes(2)
    site.ask("approve_plan")
    site.minutes(4)
    assert current_plan(site)["state"] == "done"
    assert seen == {name for _, name in functions}
    assert on_the_reactor == []
    site.close()
