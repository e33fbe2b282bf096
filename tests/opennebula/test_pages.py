"""Pools in pages: all VMs are read, whatever happens between two pages."""

import numpy as np
import pytest

from merkatd.base.deferreds import in_parallel
from merkatd.scheduler.base.ports import Observation
from tests.opennebula.worlds import ADMIN, SMALL, World, in_memory


@pytest.fixture
def many() -> World:
    """Return a world with 123 VMs."""
    world = in_memory()
    for _ in range(123):
        assert world.embedded.call("one.vm.allocate", [ADMIN, SMALL]).success
    return world


def observe_in_pages(world: World, rows: int) -> Observation:
    """Return an observation in pages of `rows` rows."""
    return world.run(world.cloud(page_rows=rows).observe())


@pytest.mark.parametrize("rows", [2, 10, 122, 123, 124, 500])
def test_pages_of_any_size_show_the_same(many: World, rows: int) -> None:
    """This holds also if the last page has only the VM shared with the one before."""
    seen = observe_in_pages(many, rows)
    assert np.array_equal(seen.vm_id, np.arange(123))
    assert seen.ailing == {}


def test_pages_work_over_http(http_world: World) -> None:
    """The result is the same."""
    for _ in range(105):
        assert http_world.embedded.call("one.vm.allocate", [ADMIN, SMALL]).success
    assert np.array_equal(observe_in_pages(http_world, 10).vm_id, np.arange(105))


@pytest.mark.parametrize("gone", [1, 3, 9, 15, 60])
@pytest.mark.parametrize("newest", [True, False])
def test_vms_that_vanish_between_pages_hide_no_others(
    many: World, gone: int, *, newest: bool
) -> None:
    """The newest VMs vanish, or those at the start of the next page."""
    first = 123 - gone if newest else 123 - 30 - gone // 2
    leaving = range(first, first + gone)

    def vanish(method: str, number: int) -> None:
        # The pool of ended VMs is read in between.
        if method == "one.vmpool.infoextended" and number == 5:
            for vm in leaving:
                assert many.embedded.call("one.vm.action", [ADMIN, "terminate", vm]).success

    many.transport.before = vanish
    seen = set(observe_in_pages(many, 10).vm_id.tolist())
    assert seen >= set(range(123)) - set(leaving)


def test_vms_that_appear_between_pages_are_read_once(many: World) -> None:
    """They shift the others, and each VM is read once."""

    def come(method: str, number: int) -> None:
        if method == "one.vmpool.infoextended" and number % 2:
            assert many.embedded.call("one.vm.allocate", [ADMIN, SMALL]).success

    many.transport.before = come
    seen = observe_in_pages(many, 10)
    assert np.array_equal(seen.vm_id[:123], np.arange(123))
    assert np.all(np.diff(seen.vm_id) > 0)


def test_concurrent_calls_are_limited(many: World) -> None:
    """Any number of requests may wait."""
    client = many.login(ADMIN, in_flight=3)
    many.fault("delay", "one.vm.info", seconds=1)

    async def ask() -> list[str]:
        return await in_parallel(client.vm(vm) for vm in range(20))

    assert len(many.run(ask())) == 20
    assert many.transport.most_under_way == 3
