"""Three tenants who always have something to compute: as long as it runs, VMs come and go.

workload.py ENDPOINT
"""

import itertools
import random
import sys
import time
import xmlrpc.client
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree as ET

PASSWORD = "testbed"  # noqa: S105 - of a cloud that is made for a try
TENANTS = {"ann": 6, "bo": 3, "cy": 4}
"""How many VMs each wants to have."""
GROUPS = ("physics", "biology")
BID_CPU = {"ann": 4.0, "bo": 9.0, "cy": 6.0}
WORK_S = (120, 900)
POWEROFF, DONE = 8, 6
GROUP = 0x200000000
"""In access rules: a group,"""
RIGHTS = (
    (0x1400000000, 0x8),  # may make VMs,
    (0x2400000000, 0x2),  # may have them on all hosts,
    (0x104400000000, 0x1),  # and may use all networks and datastores
)
LOOK_S = 5.0


def main(endpoint: str) -> None:
    """Never returns."""
    chance = random.Random(1)  # noqa: S311 - a workload that is the same each time
    numbers = itertools.count(1)
    with xmlrpc.client.ServerProxy(endpoint) as cloud:
        while True:
            try:
                allow(cloud)
                for tenant, wanted in TENANTS.items():
                    keep(cloud, tenant, wanted, numbers, chance)
            except OSError as error:
                # The cloud is about to begin, or to begin again.
                sys.stderr.write(f"{error}\n")
            time.sleep(LOOK_S)


def allow(cloud: Any) -> None:
    """Whoever is in a group may have VMs, as `onegroup create` would have it."""
    session = f"oneadmin:{PASSWORD}"
    rules = xml(answered(cloud.one.acl.info(session)))
    there = {int(element.findtext("USER"), 16) for element in rules.iter("ACL")}
    for group in xml(answered(cloud.one.grouppool.info(session))).iter("GROUP"):
        who = GROUP + int(group.findtext("ID"))
        if group.findtext("NAME") in GROUPS and who not in there:
            for what, right in RIGHTS:
                answered(cloud.one.acl.addrule(session, f"{who:x}", f"{what:x}", f"{right:x}"))


def keep(
    cloud: Any, tenant: str, wanted: int, numbers: Iterator[int], chance: random.Random
) -> None:
    """What is finished goes, and something new comes instead."""
    session = f"{tenant}:{PASSWORD}"
    there = 0
    for vm, state in mine(cloud, session):
        if state == POWEROFF:
            answered(cloud.one.vm.action(session, "terminate-hard", vm))
        else:
            there += state != DONE
    for _ in range(there, wanted):
        template = described(tenant, next(numbers), chance)
        answered(cloud.one.vm.allocate(session, template, False))


def mine(cloud: Any, session: str) -> list[tuple[int, int]]:
    """A tenant's VMs, with their states."""
    pool = xml(answered(cloud.one.vmpool.info(session, -3, -1, -1, -1)))
    return [(int(vm.findtext("ID")), int(vm.findtext("STATE"))) for vm in pool.iter("VM")]


def xml(text: str) -> Any:
    """The elements of what the cloud answered."""
    return ET.fromstring(text)  # noqa: S314


def described(tenant: str, number: int, chance: random.Random) -> str:
    """A VM with a bid, and work that ends."""
    cores = chance.choice((1, 2, 4))
    bid = BID_CPU[tenant] * cores * chance.uniform(0.5, 1.5)
    return (
        f'NAME="{tenant}-{number}" CPU="{cores / 2}" VCPU="{cores}" MEMORY="{1024 * cores}"'
        f' MERKAT_BID_CPU="{bid:.1f}" MERKAT_BID_MEMORY="1"'
        f' EMBEDDED=[WORK="{chance.randint(*WORK_S)}",ON_FINISH="poweroff"]'
    )


def answered(reply: list[Any]) -> Any:
    """The value of a reply; what the cloud refuses ends the program."""
    if reply[0] is not True:
        sys.exit(f"the cloud refuses: {reply[1]}")
    return reply[1]


if __name__ == "__main__":
    main(sys.argv[1])
