"""VMs and resources that a platform does not own or cannot get, on the embedded cloud."""

import pytest

from merkatd.embedded.machines.faults import Fault, FaultKind
from merkatd.platforms.tenant_orders import OrderError
from merkatd.protocol.platform_messages import GiveUp, SetSize
from tests.platforms.site import BOB, VM, Site


class TestStrangers:
    def test_a_key_in_another_users_template_binds_no_vm(self, site: Site) -> None:
        """Writing another user's key gets no VM paid for or ended."""
        platform = site.submit()
        site.periods(2)
        key = site.members(platform)[0].key
        site.vm(1.0, BOB, MERKAT_KEY=key)
        site.until(platform, "running")
        site.periods(3)
        owners = {site.bench.vm(vm).uid for vm in site.vms(platform)}
        assert owners == {site.ann}

    def test_a_platform_whose_vms_are_rejected_fails(self, site: Site) -> None:
        """It has the reason, and its budget returns."""
        before = site.balances()[site.ann]
        platform = site.submit(
            cluster='[[cluster]]\nname = "nodes"\ntemplate = """\nCPU="1"\nMEMORY="64"\n'
            'DISK=[IMAGE_ID="99"]"""'
        )
        row = site.until(platform, "failed", 30)
        assert "can't be created" in row.why
        assert site.balances()[site.ann] == before

    def test_a_running_platform_continues_without_rejected_vms(self, site: Site) -> None:
        """Its tenant gets the rejection and the reason."""
        platform = site.submit()
        site.until(platform, "running")
        site.cloud.faults.add(Fault(FaultKind.REFUSE, "one.vm.allocate", code=1024, text="no more"))
        assert site.act(platform, SetSize(cluster="nodes", count=4)).accepted
        site.periods(20)
        row = site.platform(platform)
        assert (row.state, row.sizes) == ("running", {"nodes": 2})
        refusals = [row for row in site.doings(platform) if "goes on without" in row.text]
        assert all(row.refused and "no more" in row.text for row in refusals)
        assert sum(int(row.text.split()[3]) for row in refusals) == 2

    def test_an_ended_platform_accepts_no_orders(self, site: Site) -> None:
        """The error has its state."""
        platform = site.submit()
        site.wait(site.manager.stop(platform, "ann"))
        assert site.platform(platform).state == "cancelled"
        for order in (site.manager.stop, site.manager.suspend, site.manager.resume):
            with pytest.raises(OrderError, match="is cancelled"):
                site.wait(order(platform, "ann"))
        assert not site.act(platform, GiveUp(reason="late")).accepted


def test_a_key_copied_into_an_older_vm_of_another_user_gives_no_vm_away(site: Site) -> None:
    """The answer to the creation was lost, so the daemon searches the new VM by its key."""
    foreign = site.vm(1.0, BOB)
    site.periods(3)
    platform = site.submit(
        cluster=f'[[cluster]]\nname = "nodes"\ninitial = 1\nmost = 1\ntemplate = """\n{VM}"""'
    )
    real = site.cut_off_after(1)
    site.try_period()
    site.restore(real)
    made = max(site.alive())
    key = site.bench.vm(made).user_template.get("MERKAT_KEY")
    assert key
    assert made != foreign
    site.bench.ok("one.vm.update", foreign, f'MERKAT_KEY="{key}"', 1, session=BOB)
    site.until(platform, "running")
    assert site.bench.vm(foreign).uid == site.bob
    assert (site.vms(platform), sorted(site.alive())) == ([made], [foreign, made])
