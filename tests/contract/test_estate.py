"""Further placement facts: VM groups, datastores, clusters, networks, users and groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.contract.endpoint import SMALL
from tests.contract.ways import DONE, RUNNING

if TYPE_CHECKING:
    from tests.contract.endpoint import Endpoint

ALL = (-2, -1, -1)
READY = "1"


def test_vm_groups_have_roles_policies_and_members(endpoint: Endpoint) -> None:
    """A VM joins the role that its template names, and leaves it when it ends."""
    group = endpoint.ok(
        "one.vmgroup.allocate",
        f'NAME="{endpoint.name()}"\nROLE=[NAME="web", POLICY="ANTI_AFFINED"]\n'
        f'ROLE=[NAME="db", HOST_AFFINED="{endpoint.hosts[0]}"]\nANTI_AFFINED="web,db"\n',
    )
    vms = [endpoint.new(f'{SMALL}VMGROUP=[VMGROUP_ID="{group}", ROLE="web"]\n') for _ in range(2)]
    shown = endpoint.pool("one.vmgrouppool.info", *ALL)[group]
    roles = {row.findtext("NAME"): row for row in shown.iterfind("ROLES/ROLE")}
    assert roles["web"].findtext("POLICY") == "ANTI_AFFINED"
    assert {int(vm) for vm in (roles["web"].findtext("VMS") or "").split(",")} == set(vms)
    assert roles["db"].findtext("HOST_AFFINED") == str(endpoint.hosts[0])
    assert roles["db"].findtext("VMS") is None
    assert shown.findtext("TEMPLATE/ANTI_AFFINED") == "web,db"
    inside = endpoint.xml("one.vm.info", vms[0])
    assert inside.findtext("TEMPLATE/VMGROUP/ROLE") == "web"
    assert inside.findtext("TEMPLATE/VMGROUP/VMGROUP_ID") == str(group)
    endpoint.act(vms[0], "terminate", DONE)
    shown = endpoint.xml("one.vmgroup.info", group)
    assert shown.findtext("ROLES/ROLE[NAME='web']/VMS") == str(vms[1])


def test_a_vm_group_must_exist(endpoint: Endpoint) -> None:
    """A VM that names a missing group is refused with 8192."""
    code, text = endpoint.refused(
        "one.vm.allocate", SMALL + 'VMGROUP=[VMGROUP_ID="98765", ROLE="web"]\n'
    )
    assert code == 8192
    assert "VM Group" in text


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (
            'ROLE=[NAME="a"]\nROLE=[NAME="b"]\nAFFINED="a, b"\nANTI_AFFINED="b,a"\n',
            "Roles defined in AFFINED and ANTI_AFFINED rules: a b",
        ),
        (
            'ROLE=[NAME="a",POLICY="anti_affined"]\nROLE=[NAME="b"]\nAFFINED="a,b"\n',
            "Role a is in an AFFINED rule but the role policy is ANTI_AFFINED",
        ),
        (
            'ROLE=[NAME="a"]\nANTI_AFFINED="a,z"\n',
            "Some roles used in ANTI_AFFINED attribute (a,z) are not defined",
        ),
        ('ROLE=[NAME="a"]\nROLE=[NAME="a"]\n', "Role already exists"),
        ('ROLE=[POLICY="AFFINED"]\n', "Missing NAME in VM group role"),
    ],
)
def test_contradictory_rules_are_refused(endpoint: Endpoint, words: str, fault: str) -> None:
    """The code is 8192, and the text names the rules."""
    answer = endpoint.refused("one.vmgroup.allocate", f'NAME="{endpoint.name()}"\n{words}')
    assert answer == (8192, f"[one.vmgroup.allocate] {fault}")


def test_datastores_report_their_type_and_capacity(endpoint: Endpoint) -> None:
    """Type 0 holds images, 1 VMs, 2 files; each is in the default cluster."""
    pool = endpoint.pool("one.datastorepool.info")
    assert [pool[oid].findtext("TYPE") for oid in (0, 1, 2)] == ["1", "0", "2"]
    system = pool[0]
    assert system.findtext("NAME") == "system"
    assert system.findtext("STATE") == "0"
    assert system.findtext("TM_MAD") == "dummy"
    assert "0" in {row.text for row in system.iterfind("CLUSTERS/ID")}
    for name in ("TOTAL_MB", "FREE_MB", "USED_MB"):
        assert int(system.findtext(name) or "") >= 0
    assert system.findtext("PERMISSIONS/OWNER_U") == "1"


def test_a_history_record_names_the_datastore(endpoint: Endpoint) -> None:
    """It is the default datastore or the requested one."""
    vm = endpoint.new()
    endpoint.ok("one.vm.deploy", vm, endpoint.hosts[0], False, 0)
    endpoint.reaches(vm, RUNNING)
    record = endpoint.pool("one.vmpool.infoextended", -2, -1, -1, -1)[vm].find(
        "HISTORY_RECORDS/HISTORY"
    )
    assert record is not None
    assert (record.findtext("DS_ID"), record.findtext("CID")) == ("0", "0")
    assert record.findtext("HID") == str(endpoint.hosts[0])
    assert record.findtext("ETIME") == "0"


def test_clusters_have_hosts_and_attributes(endpoint: Endpoint) -> None:
    """A host can move to another cluster; new clusters have ids from 100 on."""
    name = endpoint.name()
    cluster = endpoint.ok("one.cluster.allocate", name)
    assert cluster >= 100
    endpoint.ok("one.cluster.update", cluster, 'MARKET="gold"', 1)
    endpoint.ok("one.cluster.addhost", cluster, endpoint.hosts[2])
    pool = endpoint.pool("one.clusterpool.info")
    assert pool[cluster].findtext("TEMPLATE/MARKET") == "gold"
    assert [row.text for row in pool[cluster].iterfind("HOSTS/ID")] == [str(endpoint.hosts[2])]
    assert str(endpoint.hosts[2]) not in {row.text for row in pool[0].iterfind("HOSTS/ID")}
    host = endpoint.pool("one.hostpool.info")[endpoint.hosts[2]]
    assert (host.findtext("CLUSTER_ID"), host.findtext("CLUSTER")) == (str(cluster), name)
    endpoint.ok("one.cluster.addhost", 0, endpoint.hosts[2])


def test_a_clusters_reservations_apply_to_its_hosts(endpoint: Endpoint) -> None:
    """A host's own reservations come first."""
    cluster = endpoint.ok("one.cluster.allocate", endpoint.name())
    endpoint.ok("one.cluster.addhost", cluster, endpoint.hosts[2])
    endpoint.ok("one.cluster.update", cluster, 'RESERVED_CPU="100"', 1)
    endpoint.until(lambda: endpoint.share(2)["MAX_CPU"] == 700, "the reservation")
    endpoint.ok("one.host.update", endpoint.hosts[2], 'RESERVED_CPU="200"', 1)
    endpoint.until(lambda: endpoint.share(2)["MAX_CPU"] == 600, "the host's own")
    endpoint.ok("one.cluster.addhost", 0, endpoint.hosts[2])


def test_datastores_can_be_in_several_clusters(endpoint: Endpoint) -> None:
    """A new cluster has none; only an empty cluster can be removed."""
    cluster = endpoint.ok("one.cluster.allocate", endpoint.name())

    def stores() -> list[str | None]:
        return [row.text for row in endpoint.xml("one.cluster.info", cluster).iterfind("*/ID")]

    assert stores() == []
    for _ in range(2):
        assert endpoint.ok("one.cluster.adddatastore", cluster, 0) == cluster
        assert stores() == ["0"]
    homes = endpoint.xml("one.datastore.info", 0).iterfind("CLUSTERS/ID")
    assert {row.text for row in homes} >= {"0", str(cluster)}
    code, text = endpoint.refused("one.cluster.delete", cluster)
    assert code == 2048
    assert text.endswith(f"Cluster {cluster} is not empty, it contains 1 datastores.")
    assert endpoint.ok("one.cluster.deldatastore", cluster, 0) == cluster
    assert stores() == []
    assert endpoint.refused("one.cluster.adddatastore", cluster, 98765)[0] == 1024


def test_networks_are_in_clusters(endpoint: Endpoint) -> None:
    """They report the number of used leases."""
    net = endpoint.ok(
        "one.vn.allocate",
        f'NAME="{endpoint.name()}"\nVN_MAD="dummy"\nBRIDGE="br0"\nRACK="7"\n',
        -1,
    )
    endpoint.until(
        lambda: endpoint.pool("one.vnpool.info", *ALL)[net].findtext("STATE") in {None, READY},
        "the network made",
    )
    shown = endpoint.pool("one.vnpool.info", *ALL)[net]
    assert [row.text for row in shown.iterfind("CLUSTERS/ID")] == ["0"]
    assert shown.findtext("USED_LEASES") == "0"
    assert shown.findtext("TEMPLATE/RACK") == "7"


def test_a_new_group_has_rights_by_default(endpoint: Endpoint) -> None:
    """Rules that end with the group give it every host, network and datastore."""
    group = endpoint.ok("one.group.allocate", endpoint.name())

    def rules() -> list[str]:
        texts = (row.findtext("STRING") or "" for row in endpoint.xml("one.acl.info"))
        return [text for text in texts if text.startswith(f"@{group} ")]

    assert rules() == [
        f"@{group} HOST/* MANAGE #0", f"@{group} NET/* USE #0", f"@{group} DATASTORE/* USE #0"
    ]  # fmt: skip
    endpoint.ok("one.group.delete", group)
    assert rules() == []


def test_users_and_groups_have_names_and_templates(endpoint: Endpoint) -> None:
    """A user's own group is the first one."""
    group = endpoint.ok("one.group.allocate", endpoint.name())
    assert group >= 100
    endpoint.ok("one.group.update", group, 'MERKAT_WEIGHT="3"', 1)
    user, session = endpoint.user([group, 1])
    shown = endpoint.pool("one.userpool.info")[user]
    assert shown.findtext("GID") == str(group)
    assert {row.text for row in shown.iterfind("GROUPS/ID")} == {str(group), "1"}
    assert shown.findtext("ENABLED") == "1"
    rows = endpoint.pool("one.grouppool.info")
    assert [row.text for row in rows[group].iterfind("USERS/ID")] == [str(user)]
    assert rows[group].findtext("TEMPLATE/MERKAT_WEIGHT") == "3"
    own = endpoint.xml("one.user.info", -1, session=session)
    assert own.findtext("ID") == str(user)
    vm = endpoint.new(session=session)
    inside = endpoint.xml("one.vm.info", vm)
    assert (inside.findtext("UID"), inside.findtext("GID")) == (str(user), str(group))
    endpoint.ok("one.vm.recover", vm, 5)
    endpoint.ok("one.user.delete", user)
    assert endpoint.refused("one.user.info", user)[0] == 1024
