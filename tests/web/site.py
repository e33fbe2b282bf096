"""A complete daemon with its page."""

from pathlib import Path

from merkatd.client import Platforms
from tests.api.xmlrpc.site import ANN, Site, until
from tests.web.browser import Browser

ANNS = "anns-secret"
"""A part of the names of all of Ann's objects."""
_CONFIG = """
[web]
listeners = 3
listeners_per_user = 2
"""
_TEMPLATE = f"""
name = "{ANNS}-platform"
[controller]
kind = "none"
[budget]
credits = 100
[slo]
deadline = "2h"
[[cluster]]
name = "nodes"
least = 1
initial = 1
template = '''
CPU = "1"
VCPU = "1"
MEMORY = "256"
'''
"""


class PageSite(Site):
    """VM 0 is Ann's and VM 1 Bob's; Ann also has a VM and a platform with secret names."""

    def __init__(self, folder: Path, more: str = "") -> None:
        super().__init__(folder, _CONFIG + more)
        try:
            self._fill()
        except BaseException:
            self.program.kill()
            raise

    def _fill(self) -> None:
        self.address = (self.state / "merkat_web").read_text().strip()
        template = f'CPU="1"\nMEMORY="128"\nNAME="{ANNS}-vm"'
        self.vm = int(self.opennebula(ANN, "one.vm.allocate", template, False))
        with self.merkat(ANN) as merkat:
            self.platform = Platforms(merkat).submit(_TEMPLATE).id
        until(self._all_there, "Ann's VMs")

    def _all_there(self) -> bool:
        rows = self.order("vms")
        there = any(row["id"] == self.vm and row["host"] for row in rows)
        return there and self.order("platform", platform=self.platform)["vms"]

    def browser(self, login: str | None = None) -> Browser:
        """Return a browser, signed in if a login is given."""
        made = Browser(self.address)
        if login is not None:
            answer = made.sign_in(login)
            assert (answer.status, answer.place) == (303, "/"), answer.text
        return made
