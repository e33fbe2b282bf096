"""A large cloud whose hosts have equal mixtures of VMs, so that no VM has to migrate."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
from twisted.internet.task import Clock

from merkatd.embedded.cloud import EmbeddedCloud
from merkatd.embedded.model.settings import HostSize
from merkatd.embedded.state_file import SqliteStore

if TYPE_CHECKING:
    from pathlib import Path

    from merkatd.base.clock import Clock as AnyClock

PASSWORD = "secret"  # noqa: S105 - the cloud lasts as long as its test
ADMIN = f"oneadmin:{PASSWORD}"
HOSTS, VMS = 1_000, 10_000
OWNERS = 50
HOST = HostSize(cpu=800, memory_mib=16_384)
BOOT_S = 5.0
"""The time of the cloud after which all deployed VMs run."""


def large_cloud(
    clock: AnyClock, store: SqliteStore | None = None, hosts: int = HOSTS, vms: int = VMS
) -> EmbeddedCloud:
    """Return the cloud with all VMs deployed round robin over the hosts, before they boot."""
    cloud = EmbeddedCloud(clock, np.random.default_rng(1))
    if store is not None:
        store.follow(cloud)
    cloud.found(PASSWORD)
    cloud.add_hosts(hosts, HOST)
    for owner in range(OWNERS):
        _must(cloud, ADMIN, "one.user.allocate", f"owner{owner}", PASSWORD, "", [])
    allocate(cloud, vms, hosts)
    for vm in range(vms):
        _must(cloud, ADMIN, "one.vm.deploy", vm, vm % hosts)
    return cloud


def prepare_state(state: Path, pending: int, hosts: int = HOSTS, vms: int = VMS) -> None:
    """Write a state file of the cloud with all VMs running and some more pending."""
    clock = Clock()
    clock.advance(time.time() - 2 * BOOT_S)
    cloud = large_cloud(clock, SqliteStore(state), hosts, vms)
    clock.advance(BOOT_S)
    allocate(cloud, pending, pending)
    cloud.close()


def allocate(cloud: EmbeddedCloud, vms: int, hosts: int) -> None:
    """Create pending VMs; each host's set has the same bids, sizes and memory use."""
    for number in range(vms):
        turn = number // hosts
        text = (
            f"CPU=0.5\nVCPU={1 + turn % 2}\nMEMORY={1024 + 512 * (turn % 4)}\n"
            f'MERKAT_BID_CPU={1 + turn % 5}\nMERKAT=[BID_MEMORY="{1 + turn % 3}"]\n'
        )
        owner = f"owner{number % OWNERS}:{PASSWORD}"
        _must(cloud, owner, "one.vm.allocate", text)


def _must(cloud: EmbeddedCloud, session: str, method: str, *arguments: object) -> None:
    reply = cloud.call(method, [session, *arguments])
    assert reply.success, reply
