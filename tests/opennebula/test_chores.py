"""What a server up to 6.6 leaves to its scheduler is done, once, and written down."""

from typing import Any

import pytest

from merkatd.embedded.model.settings import EmbeddedSettings
from merkatd.opennebula import scheduled_actions
from tests.opennebula.worlds import SMALL, World, in_memory

OLD, NEW = "6.6.3", "6.8.0"


def scheduled(action: str, time_s: str, **more: str) -> str:
    """A template with one scheduled action."""
    parts = {"ID": "0", "ACTION": action, "TIME": time_s, **more}
    return SMALL + "SCHED_ACTION=[" + ",".join(f'{k}="{v}"' for k, v in parts.items()) + "]"


def world_of(version: str) -> World:
    """A cloud that calls itself so."""
    return in_memory(settings=EmbeddedSettings(version=version))


def run(world: World) -> list[str]:
    """One round; the calls that changed something."""
    world.observe()
    world.transport.calls.clear()
    world.run(world.one.run_scheduled())
    return [name for name, _ in world.transport.calls if name != "one.system.version"]


def action_of(world: World, vm: int) -> dict[str, Any]:
    """The action as it stands in the VM's template."""
    found = world.embedded.world.vms.get(vm)
    assert found is not None
    return found.template.vector("SCHED_ACTION")


def test_an_action_is_run_once_when_its_time_has_come() -> None:
    """Not before; later rounds find it done."""
    world = world_of(OLD)
    vm = world.running(0, scheduled("suspend", "+100"))
    assert run(world) == []
    world.wait(100)
    assert run(world) == ["one.vm.action", "one.vm.schedupdate"]
    world.wait()
    assert world.words(vm) == "SUSPENDED"
    assert int(action_of(world, vm)["DONE"]) >= 100
    assert run(world) == []


def test_one_that_is_refused_says_why_and_is_tried_again() -> None:
    """A VM that waits can't be resumed."""
    world = world_of(OLD)
    vm = world.new(scheduled("resume", "+1"))
    world.wait(10)
    for _ in range(2):
        assert run(world) == ["one.vm.action", "one.vm.schedupdate"]
        assert "DONE" not in action_of(world, vm)
        assert "resume" in action_of(world, vm)["MESSAGE"]


def test_what_is_no_action_harms_no_other() -> None:
    """It says so; another VM's is run."""
    world = world_of(OLD)
    odd, good = world.new(scheduled("dance", "+1")), world.running(0, scheduled("stop", "+1"))
    world.wait(10)
    run(world)
    assert "dance is not an action" in action_of(world, odd)["MESSAGE"]
    assert "DONE" in action_of(world, good)


def test_a_newer_server_does_it_by_itself() -> None:
    """Nothing is done twice."""
    world = world_of(NEW)
    world.running(0, scheduled("suspend", "+1"))
    world.wait(10)
    assert run(world) == []


def test_refused_ones_keep_no_others_from_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many are due: some in each period, and each of them within some minutes."""
    monkeypatch.setattr(scheduled_actions, "_MOST", 4)
    world = world_of(OLD)
    for _ in range(10):
        world.new(scheduled("resume", "+1"))
    runs = world.running(0, scheduled("suspend", "+1"))
    world.wait(10)
    for _ in range(3):
        assert len(run(world)) <= 8
        world.wait(60)
    assert world.words(runs) == "SUSPENDED"
