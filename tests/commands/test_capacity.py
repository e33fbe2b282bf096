"""`merkatd capacity`: what fits now, of a size given, and at which price."""

import json
from typing import Any

import pytest

from tests.commands.asking import Daemon, Shell


def rooms(shell: Shell, words: str) -> dict[str, dict[str, Any]]:
    """Return the rows by host."""
    answer = json.loads(shell.ok(f"capacity {words} --json").out)
    return {row["host"]: row for market in answer["markets"] for row in market["hosts"]}


def test_the_bid_gets_the_size_and_costs_what_it_says(daemon: Daemon, shell: Shell) -> None:
    """A VM of this size, created on that host with that bid, gets it and pays this."""
    room = rooms(shell, "--cpu 150 --memory 1024")["host001"]
    vm = daemon.frontend.vm(
        room["bid_cpu"],
        VCPU=2,
        MEMORY=1024,
        MERKAT_MAX_CPU=150,
        MERKAT_BID_MEMORY=max(room["bid_memory"], 0.1),
        SCHED_REQUIREMENTS="ID = 1",
    )
    daemon.period(2)
    (row,) = [row for row in daemon.answer("vms") if row["id"] == vm]
    assert row["host"] == "host001"
    assert row["cpu"] == pytest.approx(150)
    assert row["memory"] == pytest.approx(1024)
    assert row["cost"] == pytest.approx(room["cost"], rel=0.02)


def test_all_vms_that_fit_beside_floors_find_a_place(daemon: Daemon, shell: Shell) -> None:
    """And one more does not: it stays pending."""
    size: dict[str, Any] = {"MEMORY": 4096, "MERKAT_MIN_MEMORY": 4096, "MERKAT_BID_MEMORY": 50}
    fits = sum(row["fits"] for row in rooms(shell, "--memory 4096").values())
    assert fits > 1
    vms = [daemon.frontend.vm(1.0, VCPU=1, **size) for _ in range(fits + 1)]
    daemon.period(6)
    states = [daemon.frontend.state(vm) for vm in vms]
    assert states.count("RUNNING") == fits
    assert states.count("PENDING") == 1
    assert sum(row["fits"] for row in rooms(shell, "--memory 4096").values()) == 0


def test_what_no_vm_gets_is_unused(asked: Shell, settled: Daemon) -> None:
    """CPU is sold out here, memory is not."""
    room = rooms(asked, "--cpu 100 --memory 1024")
    assert {row["unused"] for row in room.values()} == {0}
    hosts = {row["name"]: row for row in settled.answer("hosts")}
    for name, row in rooms(asked, "--memory 512").items():
        free = hosts[name]["memory"] - hosts[name]["given_memory"]
        assert row["free_memory"] == pytest.approx(free)
        assert row["unused"] == int(free // 512) > 0


def test_hosts_that_take_no_vms_are_counted_apart(daemon: Daemon, shell: Shell) -> None:
    """A drained host has no room."""
    assert set(rooms(shell, "")) == {"host000", "host001"}
    daemon.answer("drain", host="host001", who="ann")
    daemon.period()
    assert set(rooms(shell, "")) == {"host000"}
    text = shell.ok("capacity").out
    assert "VMs of 100 % of a core and 1,024 MiB of memory:" in text
    assert "1 hosts of the market take no new VMs." in text


def test_no_bid_gets_more_than_a_host(asked: Shell) -> None:
    """The text says so, and the row has no cost."""
    room = rooms(asked, "--cpu 5000")
    assert {row["cost"] for row in room.values()} == {None}
    assert {row["fits"] for row in room.values()} == {0}
    assert "no bid gets one its size on any host" in asked.ok("capacity --cpu 5000").out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("capacity --cpu 0", "at least one amount must be above 0"),
        ("capacity --market nowhere", "market: must be one of default (got 'nowhere')"),
        ("capacity --network 100", "network: network is not sold; sold: cpu, memory"),
    ],
)
def test_wrong_sizes_are_refused(words: str, says: str, asked: Shell) -> None:
    """With what is accepted."""
    assert says in asked.refused(words)
