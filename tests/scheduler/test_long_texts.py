"""A VM whose texts are too long to read is charged and limited like its neighbour."""

from merkatd.base.clock import Inline
from merkatd.opennebula import Client, OpenNebulaCloud
from merkatd.opennebula.pools.vm_pool import LONG
from tests.scheduler.frontend import PAPER_MARKET, SESSION, Frontend


def frontend(vms_bytes: int) -> Frontend:
    """Return a daemon with a limit on the size of VM texts."""
    made = Frontend(hosts=1)
    client = Client(made.transport, SESSION, made.clock, vms_bytes=vms_bytes)
    made.world_settings = {
        "cloud": OpenNebulaCloud(client, made.clock, Inline()),
        "markets": (PAPER_MARKET,),
    }
    made.start_daemon()
    return made


def test_long_texts_do_not_avoid_charges() -> None:
    """Two VMs bid the same; one gets a text of two MiB that no period reads."""
    made = frontend(LONG // 2)
    honest, other = made.user("honest"), made.user("other")
    vms = [made.vm(400, honest), made.vm(400, other)]
    made.periods(3)
    before = made.balances()
    made.bench.ok("one.vm.update", vms[1], f'NOTE="{"x" * 2 * LONG}"', 1, session=other)
    latest = made.periods(5)
    spent = {owner: before[owner] - left for owner, left in made.balances().items()}
    owners = [int(made.bench.vm(vm).uid) for vm in vms]
    assert spent[owners[0]] > 1
    assert abs(spent[owners[1]] - spent[owners[0]]) < 1e-3 * spent[owners[0]]
    assert made.limits(vms[1]) == made.limits(vms[0])
    assert list(latest.seen.observation.by_record) == [vms[1]]
    message = made.bench.vm(vms[1]).user_template.get("SCHED_MESSAGE")
    assert "its texts take more than 1 MiB" in message
    assert "charged and limited by OpenNebula's own record" in message
    made.close()
