"""`onegroup` with OpenNebula behind it: the embedded cloud, and optionally a real one.

MERKAT_ONE_ENDPOINT and MERKAT_ONE_AUTH name a real one, whose VMs and hosts are all removed.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from merkatd.cli import main as merkatd
from tests.contract.ways import DONE, PENDING
from tests.onegroup.managed import CLOUDS, HOSTS, Managed, make_template, managed
from tests.onegroup.site import TEMPLATE, Shell, until
from tests.servers import MariaDb

DATABASE = "scheduler"
"""The name of the database in the report."""


@pytest.fixture(scope="module", params=CLOUDS)
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, mariadb: MariaDb
) -> Iterator[Managed]:
    """Yield a cloud and its daemon for all tests of the module."""
    folder = tmp_path_factory.mktemp(request.param)
    with managed(request.param, folder, mariadb.make(DATABASE)) as made:
        yield made
    mariadb.drop(DATABASE)


@pytest.fixture
def ann(
    place: Managed,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Shell]:
    """Yield Ann's shell."""
    shell = Shell(place, tmp_path, capsys, monkeypatch)
    shell.login(place.session("ann"))
    yield shell
    if place.ended:
        return
    shell.login(place.admin)
    for row in shell.groups():
        if row["stat"] == "active":
            shell.ok(f"delete {row['id']} --yes")
    until(lambda: not shell.groups(), "all groups over")


def test_a_group_can_be_created_edited_and_deleted(place: Managed, ann: Shell) -> None:
    """OpenNebula always has exactly the requested VMs."""
    group = ann.create("create -t vm.template -s 60 -n 2 --name renders")

    def running(count: int) -> list[int]:
        """Return the VMs, the oldest first, whose numbers may be in any order."""
        alive = place.until_running(group, count)
        vms = [vm["vm"] for vm in ann.until_running(group, count)["vms"]]
        assert sorted(vms) == alive
        return vms

    first = running(2)
    (row,) = ann.groups()
    assert (row["id"], row["nvm"], row["vmid"]) == (group, 2, first)
    rows = place.vms(group)
    for number, vm in enumerate(first, start=1):
        assert rows[vm].findtext("NAME") == f"renders-{number}"
        assert rows[vm].findtext("UID") == str(place.users["ann"][0])
    assert len({row["host"] for row in ann.show(group)["vms"]}) == HOSTS
    ann.ok("edit renders -s 90 -n 4")
    more = running(4)
    assert more[:2] == first
    ann.ok("edit renders -n 3")
    assert running(3) == more[:3]
    ann.ok(f"edit renders --vm {more[0]}")
    assert running(2) == more[1:3]
    row = ann.show(group)
    assert (row["spending_rate"], row["rate_of_a_vm"], row["nvm"]) == (90.0, 45.0, 2)
    assert f"GROUP {group} INFORMATION" in ann.ok("show renders")
    ann.ok("delete renders --yes")
    until(lambda: not ann.groups(), "the group is over")
    assert set(place.states(group).values()) == {DONE}


def test_a_group_uses_a_template_of_opennebula(place: Managed, ann: Shell) -> None:
    """Id and name work, and missing rights fail with OpenNebula's text."""
    context = 'CONTEXT=[NETWORK="YES",NOTE="a \\"b\\" \\\\ c",KEY="$USER[KEY]",WHO="$UNAME"]\n'
    oid, name = make_template(
        place.opennebula, place.session("ann"), f'{TEMPLATE}{context}DESCRIPTION="two\nlines"\n'
    )
    place.opennebula.ok("one.user.update", place.users["ann"][0], 'KEY="the \\"key\\" of ann"', 1)
    place.opennebula.ok("one.user.update", 0, 'KEY="nobody else\'s business"', 1)
    for word in (str(oid), name):
        group = ann.create(f"create -t {word} -s 5 -n 1")
        (vm,) = place.until_running(group, 1)
        shown = place.opennebula.xml("one.vm.info", vm)
        assert shown.findtext("TEMPLATE/MEMORY") == "256"
        assert shown.findtext("TEMPLATE/CONTEXT/NOTE") == 'a "b" \\\\ c'
        assert shown.findtext("TEMPLATE/CONTEXT/KEY") == 'the "key" of ann'
        assert shown.findtext("TEMPLATE/CONTEXT/WHO") == place.session("ann").partition(":")[0]
        assert shown.findtext("USER_TEMPLATE/DESCRIPTION") == "two\nlines"
        # As with OpenNebula's own commands, its name is not the template's.
        assert shown.findtext("NAME") == f"group-{group}-1"
        ann.ok(f"delete {group} -y")
    ann.login(place.session("bob"))
    assert "Not authorized" in ann.refused(f"create -t {oid} -s 5 -n 1")
    assert "no template of yours in OpenNebula is named" in ann.refused(
        f"create -t {name} -s 5 -n 1"
    )
    assert "98765" in ann.refused("create -t 98765 -s 5 -n 1")
    ann.login(place.session("ann"))


def test_rights_are_those_of_opennebula(place: Managed, ann: Shell) -> None:
    """Users see their own groups, and administrators all groups."""
    group = ann.create("create vm.template --srate 5 --nvm 1")
    place.until_running(group, 1)
    ann.login(place.session("bob"))
    assert ann.groups() == []
    assert "Not authorized to perform USE GROUP" in ann.refused(f"show {group}")
    ann.login(place.admin)
    assert [row["id"] for row in ann.groups()] == [group]
    ann.ok(f"chown {group} {place.users['bob'][0]}")
    ann.login(place.session("bob"))
    assert ann.show(group)["user"] == place.session("bob").partition(":")[0]
    assert ann.ok("list --csv -l ID,NVM --no-header") == f"{group},1\n"


def test_watch_shows_the_group_start(
    place: Managed, ann: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each refresh shows the present number of VMs."""
    group, seen = ann.create(), []

    def sleep(seconds: float) -> None:
        del seconds
        seen.append(len(place.until_running(group, 2)))
        if len(seen) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("onegroup.show_verbs.sleep", sleep)
    assert ann(f"watch {group}").code == 130
    assert seen == [2, 2]


def test_a_vm_ended_by_its_owner_is_not_started_again(place: Managed, ann: Shell) -> None:
    """The group becomes smaller and has the reason."""
    group = ann.create("create vm.template -s 6 -n 3")
    vms = place.until_running(group, 3)
    ann.until_running(group, 3)
    place.opennebula.act(vms[1], "terminate-hard", DONE)
    until(lambda: ann.show(group)["nvm"] == 2, "one fewer")
    assert place.until_running(group, 2) == [vms[0], vms[2]]
    assert f"VM {vms[1]} ended by itself" in ann.show(group)["why"]


def test_a_kill_between_creation_and_deployment_duplicates_no_vm(
    place: Managed, ann: Shell
) -> None:
    """After a power cut the missing VMs are created, and none twice.

    Hosts are off until then; once they are on, all VMs run.
    """
    _switch(place, off=True)
    try:
        group = ann.create("create vm.template -s 12 -n 6")
        until(lambda: place.vms(group), "a VM made")
        place.kill()
        left = place.states(group)
        assert set(left.values()) == {PENDING}
        place.start()
        ann.turn_to(place)
        until(lambda: list(place.states(group).values()) == [PENDING] * 6, "six VMs made")
        made = place.alive(group)
        assert set(left) <= set(made)
    finally:
        _switch(place, off=False)
    assert place.until_running(group, 6) == made
    assert list(place.states(group)) == made, "created twice, or created and ended"
    keys = [row.findtext("USER_TEMPLATE/MERKAT_KEY") for row in place.vms(group).values()]
    assert len(set(keys)) == 6
    assert ann.until_running(group, 6)["nvm"] == 6


def _switch(place: Managed, *, off: bool) -> None:
    for host in place.opennebula.hosts:
        place.opennebula.ok("one.host.status", host, int(off))


def test_the_reports_manual_works(place: Managed, ann: Shell, mariadb: MariaDb) -> None:
    """Each step of its Appendix A does at least what the manual says.

    Steps 1 and 2, the program and its login, are covered by docs/install.md and all other tests.
    """
    # 3: a database called scheduler, in which the daemon has created its tables.
    engine = sa.create_engine(mariadb.url(DATABASE), poolclass=sa.NullPool)
    assert {"vm_groups", "vm_group_vms"} <= set(sa.inspect(engine).get_table_names())
    # 4: parameters with appropriate values.
    assert merkatd(["check", "--config", str(place.configuration)]) == 0
    # 5: the usage of its Table 6. An id is assigned, and VMs are allocated.
    group = ann.create("create -t vm.template -s 30 -n 2")
    place.until_running(group, 2)
    first, other = (vm["vm"] for vm in ann.until_running(group, 2)["vms"])
    # Listed with groupid, spending rate, number and ids of VMs.
    listed = ann.ok("list --csv --no-header -l ID,SRATE,NVM,VMID")
    assert listed == f"{group},30.0,2,{first} {other}\n"
    # Edited: VMs are finalized, and allocated.
    ann.ok(f"edit {group} -s 60 -n 1")
    assert place.until_running(group, 1) == [first]
    ann.ok(f"edit {group} -s 60 -n 3")
    assert len(place.until_running(group, 3)) == 3
    # Deleted, its VMs finalized.
    ann.ok(f"delete {group} --yes")
    until(lambda: not place.alive(group), "all VMs ended")
    until(lambda: not ann.groups(), "the group is over")
    # 6 was before the first test; 7 and 8: stopped, and its log inspected.
    place.end()
    # The database reuses a number after a rollback.
    assert re.search(r"Period [0-9]+: [0-9]+ VMs on", place.log.read_text())
