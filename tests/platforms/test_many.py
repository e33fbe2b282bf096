"""Platforms of thousands of VMs: a period creates only as much as it may send."""

from typing import Any

import pytest

from merkatd.fleets.vm_template_text import with_attributes
from merkatd.platforms.tenant_orders import OrderError
from merkatd.protocol.message_limits import longest_memory
from merkatd.protocol.platform_messages import MOST_VMS
from merkatd.scheduler.base.settings import Rhythm
from tests.platforms.site import Site

TINY = 'CPU="0.01"\nMEMORY="1"\n'


def cluster(name: str, initial: int, most: int | None = None) -> str:
    """Return a cluster of tiny VMs."""
    upper = initial if most is None else most
    return (
        f'[[cluster]]\nname = "{name}"\nleast = 1\ninitial = {initial}\nmost = {upper}\n'
        f"template = '''\n{TINY}'''"
    )


def test_a_period_makes_only_the_texts_that_it_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    """All platforms of an owner share `new_vms` texts a period, and other owners have theirs."""
    made: list[str] = []

    def counted(text: str, attributes: Any) -> str:
        made.append(text)
        return with_attributes(text, attributes)

    monkeypatch.setattr("merkatd.platforms.lifecycle.new_vms.with_attributes", counted)
    site = Site(rhythm=Rhythm(new_vms=20))
    try:
        first = site.submit(cluster=cluster("a", 26) + "\n" + cluster("b", 8))
        second = site.submit(cluster=cluster("a", 12))
        bobs = site.submit(owner=site.bob, cluster=cluster("a", 5))
        site.until(first, "starting")
        assert len(made) == 25
        assert len(site.members(first)) == 20
        assert site.members(second) == ()
        assert len(site.members(bobs)) == 5
        counts = []
        for _ in range(4):
            made.clear()
            site.periods(1)
            counts.append((len(site.members(first)), len(site.members(second)), len(made)))
        assert counts == [(34, 6, 20), (34, 12, 6), (34, 12, 0), (34, 12, 0)]
        assert len(site.vms(first)) == 34
    finally:
        site.close()


def test_all_platforms_of_a_tenant_have_a_common_limit() -> None:
    """The number of clusters does not matter, and ended platforms do not count."""
    site = Site()
    try:
        large = "\n".join(cluster(f"c{number}", 1, 1000) for number in range(6))
        first = site.submit(cluster=large)
        message = "at most 10000 VMs together .got 6000, and your other platforms have 6000"
        with pytest.raises(OrderError, match=message):
            site.submit(cluster=large)
        site.submit(owner=site.bob, cluster=large)
        site.wait(site.manager.stop(first, "ann"))
        site.until(first, "cancelled")
        site.submit(cluster=large)
        huge = "\n".join(cluster(f"c{number}", 1000) for number in range(16))
        with pytest.raises(OrderError, match="got 16000"):
            site.submit(owner=site.tenant("carl"), cluster=huge)
    finally:
        site.close()


def test_the_largest_platforms_memory_is_stored() -> None:
    """The longest memory that the bus accepts is stored, and a longer one is an error."""
    site = Site()
    try:
        platform = site.submit()
        site.until(platform, "running")
        longest = "é" * (longest_memory(MOST_VMS) // 2 - 1)
        site.wait(site.manager.remember(platform, longest))
        assert site.platform(platform).memory == longest
        with pytest.raises(ValueError, match=r"at most \d+ bytes of JSON \(got \d+\)"):
            site.wait(site.manager.remember(platform, longest + "x"))
        assert site.platform(platform).memory == longest
    finally:
        site.close()
