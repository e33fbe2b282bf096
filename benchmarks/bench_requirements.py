"""The time to compute the allowed hosts of VMs: 10,000 VMs, 100 requirements, 1,000 hosts.

The units are yardsticks (stable argsorts of 10,000 floats) and single evaluations (an expression
for a host, by the plain evaluator).

python benchmarks/bench_requirements.py
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.support.measurement import Figures, seconds, yardstick
from merkatd.opennebula.constraints import judge_feasibility
from merkatd.opennebula.pools.constraint_facts import (
    AccessRule,
    DatastoreFacts,
    DiskLocation,
    HostFacts,
    NetworkFacts,
    RoleMember,
    SiteFacts,
    UserFacts,
    VmRequirements,
)
from merkatd.opennebula.requirements import FactTable, holds, hosts_where, parse

HOSTS, VMS, DISTINCT = 1_000, 10_000, 100
CLUSTERS, USERS = 10, 200
EVERY_HOST = AccessRule(0, 4 << 32, 4 << 32 | 0x2000000000, 2, 4 << 32)


@dataclass(frozen=True, slots=True)
class BenchmarkVm:
    """A VM of a user."""

    id: int
    owner: int
    group: int
    wants: VmRequirements
    member: RoleMember | None = None
    stay: DiskLocation | None = None


@dataclass(frozen=True, slots=True)
class BenchmarkHost:
    """A host."""

    id: int
    name: str
    facts: HostFacts


def host(row: int, rng: np.random.Generator) -> BenchmarkHost:
    """Return a host with forty attributes."""
    values = {f"ATTRIBUTE_{number}": [str(rng.integers(1000))] for number in range(30)}
    values |= {
        "NAME": [f"node{row:04}"],
        "ID": [str(row)],
        "CLUSTER_ID": [str(row % CLUSTERS)],
        "HYPERVISOR": ["kvm" if row % 20 else "lxc"],
        "ARCH": [("x86_64", "aarch64")[row % 7 == 0]],
        "CPUSPEED": [str(2000 + row % 1500)],
        "FREE_CPU": [str(int(rng.integers(3200)))],
        "FREE_MEM": [str(int(rng.integers(2**28)))],
        "LOAD": [f"{rng.random() * 8:.2f}"],
    }
    if row % 3 == 0:
        values["RACK"] = [f"r{row % 40}"]
    return BenchmarkHost(
        row, values["NAME"][0], HostFacts(row, row % CLUSTERS, values, frozenset({row + 5}))
    )


def requirement(number: int) -> str:
    """Return one of many different requirements, of the kinds that users write."""
    kinds = (
        f'ARCH = "x86*" & CPUSPEED > {2000 + number}',
        f'NAME != "node0{number % 10}*" & (LOAD < {number % 8}.5 | FREE_CPU > {number * 20})',
        f'RACK = "r{number % 40}" | !(HYPERVISOR = "kvm")',
        f"CURRENT_VMS != {number * 7} & FREE_MEM > {number * 1_000_000}",
    )
    return kinds[number % len(kinds)]


def texts() -> list[str]:
    """Return the distinct requirements, each with the expression that oned adds."""
    automatic = " | ".join(f"CLUSTER_ID = {cluster}" for cluster in range(CLUSTERS))
    return [
        f"({automatic}) & !(PUBLIC_CLOUD = YES) & ({requirement(number)})"
        for number in range(DISTINCT)
    ]


def vms() -> list[BenchmarkVm]:
    """Return VMs of many users; VMs with equal requirements share one object."""
    automatic = " | ".join(f"CLUSTER_ID = {cluster}" for cluster in range(CLUSTERS))
    wants = [
        VmRequirements(
            automatic=f"({automatic}) & !(PUBLIC_CLOUD = YES)",
            requirements=requirement(number),
            rank="- LOAD * 100" if number % 3 == 0 else "",
            system_mib=10_240,
        )
        for number in range(DISTINCT)
    ]
    return [BenchmarkVm(row, 2 + row % USERS, 100, wants[row % DISTINCT]) for row in range(VMS)]


def estate() -> SiteFacts:
    """Return datastores, networks, users and a rule that lets all users use all hosts."""
    everywhere = frozenset(range(CLUSTERS))
    return SiteFacts(
        datastores=[
            DatastoreFacts(
                row, f"system{row}", 1, everywhere, True, 1e6 + row, 2e6, True, 0, 0, 0o644
            )
            for row in range(5)
        ],
        networks=[
            NetworkFacts(row, f"net{row}", everywhere, 100, 0, 0, 0o644) for row in range(20)
        ],
        users={row: UserFacts(row, f"user{row}", (100,)) for row in range(2, 2 + USERS)},
        acl=[EVERY_HOST],
    )


def one_by_one(hosts: Sequence[BenchmarkHost]) -> int:
    """Evaluate every requirement for every host, one by one."""
    expressions = [parse(text) for text in texts()]
    facts = [(host.facts.values, host.facts.vms) for host in hosts]
    return sum(holds(expression, *fact) for expression in expressions for fact in facts)


def at_once(hosts: Sequence[BenchmarkHost]) -> int:
    """Evaluate the same with columns, which are built each time."""
    table = FactTable([host.facts.values for host in hosts], [host.facts.vms for host in hosts])
    return sum(int(hosts_where(parse(text), table).sum()) for text in texts())


def main() -> int:
    """Print all figures; return 1 if a limit is missed."""
    figures = Figures()
    rng = np.random.default_rng(1)
    hosts = [host(row, rng) for row in range(HOSTS)]
    everybody, everything = vms(), estate()
    if one_by_one(hosts) != at_once(hosts):
        raise AssertionError("columns and single evaluations differ")
    yard = yardstick(VMS)
    single = seconds(lambda: one_by_one(hosts), 3)
    columns = seconds(lambda: at_once(hosts))
    judged = seconds(lambda: judge_feasibility(everybody, hosts, everything))
    figures.plain("yardstick, ms", yard * 1e3)
    figures.plain("a single evaluation, us", single / HOSTS / DISTINCT * 1e6)
    figures.plain("100 requirements of 1000 hosts in columns, ms", columns * 1e3)
    figures.plain("everything judged, 10000 VMs, ms", judged * 1e3)
    figures.at_most(
        "everything judged / (20 yardsticks + 100 x 1000 single evaluations)",
        judged / (20 * yard + single),
        1.0,
    )
    figures.plain("everything judged, yardsticks", judged / yard)
    return figures.exit_code()


if __name__ == "__main__":
    sys.exit(main())
