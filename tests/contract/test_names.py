"""Attributes with odd names, which any user can set, leave every pool readable."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from merkatd.opennebula import Client, OpenNebulaCloud

if TYPE_CHECKING:
    from tests.contract.endpoint import Endpoint

ODD = ("A:B", "A:B:C", "VM_POOL", "USER", "VM_GROUP")
"""libxml2 takes the first two for names in an undeclared namespace."""


def xml(name: str) -> str:
    """Return a template with an attribute of this name."""
    return f"<TEMPLATE><{name}>x</{name}></TEMPLATE>"


@pytest.mark.parametrize("name", ODD)
def test_a_name_with_a_colon_hides_no_object(endpoint: Endpoint, name: str) -> None:
    """OpenNebula stores and shows it in the templates of users, VMs and VM groups."""
    user, session = endpoint.user()
    vm = endpoint.running(1, session=session)
    inside = f"<NAME>odd{vm}</NAME><ROLE><NAME>r</NAME></ROLE><{name}>x</{name}>"
    group = endpoint.ok("one.vmgroup.allocate", f"<TEMPLATE>{inside}</TEMPLATE>", session=session)
    try:
        endpoint.ok("one.user.update", user, xml(name), 1, session=session)
        endpoint.ok("one.vm.update", vm, xml(name), 1, session=session)
        shown = str(endpoint.ok("one.userpool.info"))
        assert f"<{name}><![CDATA[x]]></{name}>" in shown
        client = Client(endpoint.transport, endpoint.admin, endpoint.clock)
        cloud = OpenNebulaCloud(client, endpoint.clock, endpoint.executor)
        seen = endpoint.run(cloud.observe())
        assert vm in seen.vm_id.tolist()
        assert not seen.by_record
        assert seen.owner_name[user]
    finally:
        endpoint.ok("one.vmgroup.delete", group)
