"""Scheduled actions, which servers up to 6.6 leave to the scheduler, run once and are recorded."""

from typing import Any

import pytest

from merkatd.embedded.model.settings import EmbeddedSettings
from merkatd.opennebula import scheduled_actions
from tests.opennebula.worlds import SMALL, World, in_memory

OLD, NEW = "6.6.3", "6.8.0"


def scheduled(action: str, time_s: str, **more: str) -> str:
    """Return a template with one scheduled action."""
    parts = {"ID": "0", "ACTION": action, "TIME": time_s, **more}
    return SMALL + "SCHED_ACTION=[" + ",".join(f'{k}="{v}"' for k, v in parts.items()) + "]"


def world_of(version: str) -> World:
    """Return a cloud that reports this version."""
    return in_memory(settings=EmbeddedSettings(version=version))


def run_round(world: World) -> list[str]:
    """Run one round; return the calls that changed something."""
    world.observe()
    world.transport.calls.clear()
    world.run(world.adapter.run_scheduled())
    return [name for name, _ in world.transport.calls if name != "one.system.version"]


def action_of(world: World, vm: int) -> dict[str, Any]:
    """Return the action in the VM's template."""
    row = world.embedded.world.vms.get(vm)
    assert row is not None
    return row.template.vector("SCHED_ACTION")


def test_an_action_runs_once_at_its_time() -> None:
    """It does not run earlier, and later rounds find it done."""
    world = world_of(OLD)
    vm = world.running(0, scheduled("suspend", "+100"))
    assert run_round(world) == []
    world.wait(100)
    assert run_round(world) == ["one.vm.action", "one.vm.schedupdate"]
    world.wait()
    assert world.words(vm) == "SUSPENDED"
    assert int(action_of(world, vm)["DONE"]) >= 100
    assert run_round(world) == []


def test_a_rejected_action_has_a_message_and_is_retried() -> None:
    """A pending VM cannot be resumed."""
    world = world_of(OLD)
    vm = world.new(scheduled("resume", "+1"))
    world.wait(10)
    for _ in range(2):
        assert run_round(world) == ["one.vm.action", "one.vm.schedupdate"]
        assert "DONE" not in action_of(world, vm)
        assert "resume" in action_of(world, vm)["MESSAGE"]


def test_an_invalid_action_affects_no_other() -> None:
    """It gets a message, and another VM's action runs."""
    world = world_of(OLD)
    odd, good = world.new(scheduled("dance", "+1")), world.running(0, scheduled("stop", "+1"))
    world.wait(10)
    run_round(world)
    assert "dance is not an action" in action_of(world, odd)["MESSAGE"]
    assert "DONE" in action_of(world, good)


def test_newer_servers_run_actions_themselves() -> None:
    """Merkat runs nothing a second time."""
    world = world_of(NEW)
    world.running(0, scheduled("suspend", "+1"))
    world.wait(10)
    assert run_round(world) == []


def test_rejected_actions_do_not_block_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each period runs a few, and every action has its turn within minutes."""
    monkeypatch.setattr(scheduled_actions, "_MOST", 4)
    world = world_of(OLD)
    for _ in range(10):
        world.new(scheduled("resume", "+1"))
    runs = world.running(0, scheduled("suspend", "+1"))
    world.wait(10)
    for _ in range(3):
        assert len(run_round(world)) <= 8
        world.wait(60)
    assert world.words(runs) == "SUSPENDED"
