"""Pools in pages: all VMs are read, whatever happens between two pages."""

import numpy as np
import pytest

from merkatd.base.deferreds import in_parallel
from merkatd.scheduler.base.ports import Observation
from tests.opennebula.worlds import ADMIN, SMALL, World, in_memory


@pytest.fixture
def many() -> World:
    """1,203 VMs."""
    world = in_memory()
    for _ in range(1_203):
        assert world.embedded.call("one.vm.allocate", [ADMIN, SMALL]).success
    return world


def in_pages(world: World, rows: int) -> Observation:
    """An observation in pages of so many rows."""
    return world.run(world.cloud(page_rows=rows).observe())


@pytest.mark.parametrize("rows", [2, 100, 1_202, 1_203, 1_204, 5_000])
def test_pages_of_any_size_show_the_same(many: World, rows: int) -> None:
    """Also where the last page is empty but for the VM that it shares with the one before."""
    seen = in_pages(many, rows)
    assert np.array_equal(seen.vm_id, np.arange(1_203))
    assert seen.ailing == {}


def test_a_page_over_http(http_world: World) -> None:
    """The same on the wire."""
    for _ in range(1_050):
        assert http_world.embedded.call("one.vm.allocate", [ADMIN, SMALL]).success
    assert np.array_equal(in_pages(http_world, 100).vm_id, np.arange(1_050))


@pytest.mark.parametrize("gone", [1, 30, 99, 150, 600])
@pytest.mark.parametrize("newest", [True, False])
def test_vms_that_vanish_between_pages_hide_no_others(
    many: World, gone: int, *, newest: bool
) -> None:
    """The newest ones go, or those right where the next page would begin."""
    first = 1_203 - gone if newest else 1_203 - 300 - gone // 2
    leaving = range(first, first + gone)

    def vanish(method: str, number: int) -> None:
        # The pool of those that are done is read in between.
        if method == "one.vmpool.infoextended" and number == 5:
            for vm in leaving:
                assert many.embedded.call("one.vm.action", [ADMIN, "terminate", vm]).success

    many.transport.before = vanish
    seen = set(in_pages(many, 100).vm_id.tolist())
    assert seen >= set(range(1_203)) - set(leaving)


def test_vms_that_come_between_pages_double_none(many: World) -> None:
    """They push the others back; each is seen once."""

    def come(method: str, number: int) -> None:
        if method == "one.vmpool.infoextended" and number % 2:
            assert many.embedded.call("one.vm.allocate", [ADMIN, SMALL]).success

    many.transport.before = come
    seen = in_pages(many, 100)
    assert np.array_equal(seen.vm_id[:1_203], np.arange(1_203))
    assert np.all(np.diff(seen.vm_id) > 0)


def test_calls_under_way_are_bounded(many: World) -> None:
    """However many are asked for at once."""
    client = many.login(ADMIN, in_flight=3)
    many.fault("delay", "one.vm.info", seconds=1)

    async def ask() -> list[str]:
        return await in_parallel(client.vm(vm) for vm in range(20))

    assert len(many.run(ask())) == 20
    assert many.transport.most_under_way == 3
