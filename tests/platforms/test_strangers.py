"""What platforms do not take for theirs, or can't have, in virtual time on the embedded cloud."""

import pytest

from merkatd.embedded.machines.faults import Fault, FaultKind
from merkatd.platforms.tenant_orders import OrderError
from merkatd.protocol.platform_messages import GiveUp, SetSize
from tests.platforms.site import BOB, Site


class TestStrangers:
    def test_a_key_in_somebody_elses_template_catches_no_vm(self, site: Site) -> None:
        """Nobody gets his VM paid, or ended, by writing another's key into it."""
        platform = site.submit()
        site.periods(2)
        key = site.members(platform)[0].key
        site.vm(1.0, BOB, MERKAT_KEY=key)
        site.until(platform, "running")
        site.periods(3)
        owners = {site.bench.vm(vm).uid for vm in site.vms(platform)}
        assert owners == {site.ann}

    def test_vms_that_opennebula_refuses(self, site: Site) -> None:
        """The platform says so and fails, with its budget back."""
        before = site.balances()[site.ann]
        platform = site.submit(
            cluster='[[cluster]]\nname = "nodes"\ntemplate = """\nCPU="1"\nMEMORY="64"\n'
            'DISK=[IMAGE_ID="99"]"""'
        )
        found = site.until(platform, "failed", 30)
        assert "can't be created" in found.why
        assert site.balances()[site.ann] == before

    def test_one_that_runs_goes_on_without_vms_that_opennebula_refuses(self, site: Site) -> None:
        """Its tenant reads that they were refused, and why."""
        platform = site.submit()
        site.until(platform, "running")
        site.cloud.faults.add(Fault(FaultKind.REFUSE, "one.vm.allocate", code=1024, text="no more"))
        assert site.act(platform, SetSize(cluster="nodes", count=4)).accepted
        site.periods(20)
        found = site.platform(platform)
        assert (found.state, found.sizes) == ("running", {"nodes": 2})
        told = [one for one in site.doings(platform) if "goes on without" in one.text]
        assert all(one.refused and "no more" in one.text for one in told)
        assert sum(int(one.text.split()[3]) for one in told) == 2

    def test_what_has_ended_can_be_ordered_nothing(self, site: Site) -> None:
        """It says so."""
        platform = site.submit()
        site.wait(site.manager.stop(platform, "ann"))
        assert site.platform(platform).state == "cancelled"
        for order in (site.manager.stop, site.manager.suspend, site.manager.resume):
            with pytest.raises(OrderError, match="is cancelled"):
                site.wait(order(platform, "ann"))
        assert not site.act(platform, GiveUp(reason="late")).accepted
