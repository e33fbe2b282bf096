"""Large pools are read fast."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from io import BytesIO

import numpy as np
import pytest
from lxml import etree
from twisted.internet.task import Clock

from merkatd.embedded.cloud import EmbeddedCloud
from merkatd.embedded.model.settings import EmbeddedSettings
from merkatd.opennebula.pools.vm_pool import read_page
from tests.opennebula.host_rows import read_hosts
from tests.opennebula.worlds import ADMIN

HOSTS, VMS = 300, 1_000
TEMPLATE = 'CPU=0.5\nMEMORY=1024\nMERKAT_BID_CPU=3\nMERKAT=[MEMORY="2"]'
TIMES_BARE = 4.0


@pytest.fixture(scope="module")
def cloud() -> EmbeddedCloud:
    """Return a cloud in which everything runs and nothing changes any more."""
    clock = Clock()
    made = EmbeddedCloud(clock, np.random.default_rng(1), EmbeddedSettings(monitor_interval_s=0))
    made.found("secret")
    made.add_hosts(HOSTS)
    for vm in range(VMS):
        assert made.call("one.vm.allocate", [ADMIN, TEMPLATE]).success
        assert made.call("one.vm.deploy", [ADMIN, vm, vm % HOSTS]).success
    clock.advance(5)
    return made


def text_of(cloud: EmbeddedCloud, method: str, *arguments: int) -> str:
    """Return the text of a call's answer."""
    plain = cloud.call(method, [ADMIN, *arguments]).plain()
    assert isinstance(plain[1], str)
    return plain[1]


def parse_only(text: str, tag: str) -> None:
    """Parse each element once with lxml alone."""
    for _, element in etree.iterparse(BytesIO(text.encode()), tag=tag):
        element.clear()


def least_s(*works: Callable[[], object], rounds: int = 7) -> list[float]:
    """Return the CPU seconds of each function, the least of several alternating rounds.

    Garbage collections skip the tests' own objects, as in the daemon.
    """
    gc.collect()
    gc.freeze()
    least = [np.inf] * len(works)
    for _ in range(rounds):
        for number, work in enumerate(works):
            gc.collect()
            begun = time.thread_time()
            work()
            least[number] = min(least[number], time.thread_time() - begun)
    return least


@pytest.mark.parametrize("pool", ["vms", "hosts"])
def test_reading_costs_little_more_than_parsing(cloud: EmbeddedCloud, pool: str) -> None:
    """The reference is lxml's iterparse over the same bytes in the same run."""
    if pool == "vms":
        text = text_of(cloud, "one.vmpool.infoextended", -2, -1, -1, -1)
        parsed, read = least_s(lambda: parse_only(text, "VM"), lambda: read_page(text))
    else:
        text = text_of(cloud, "one.hostpool.info")
        parsed, read = least_s(lambda: parse_only(text, "HOST"), lambda: read_hosts(text))
    print(f"{pool}: {len(text)} characters, parsed {parsed:.3f} s, read {read:.3f} s")  # noqa: T201
    assert read <= TIMES_BARE * parsed
