"""`onegroup` against a running daemon and its embedded cloud, as a user runs it."""

import json
import re

import pytest
from lxml import etree

from tests.onegroup.site import ANN, BOB, Shell, Site, until
from tests.onegroup.test_page import PAGE


class TestManual:
    def test_the_papers_manual_works(self, shell: Shell) -> None:
        """The steps of Table 6, create, list, edit and delete, have the described effects."""
        group = shell.create("create -t vm.template -s 60 -n 2")
        vms = [vm["vm"] for vm in shell.until_running(group, 2)["vms"]]
        line = next(line for line in shell.ok("list").splitlines() if line.split()[0] == str(group))
        assert {"60", "2", ",".join(map(str, vms))} <= set(line.split())
        shell.ok(f"edit {group} -s 90 -n 3")
        row = shell.until_running(group, 3)
        assert (row["spending_rate"], row["nvm"]) == (90.0, 3)
        assert [vm["vm"] for vm in row["vms"]][:2] == vms
        shell.ok(f"delete {group} --yes")
        until(lambda: shell(f"show {group}").code == 1, "the group is gone")

    @pytest.mark.parametrize(
        "words",
        [
            "create vm.template -s 5 -n 1",
            "create --template vm.template --srate 5 --nvm 1",
            "create -template vm.template -srate 5 -nvm 1",
            "-t vm.template -s 5 -n 1 create",
        ],
    )
    def test_every_spelling_of_options_works(self, shell: Shell, words: str) -> None:
        """Plain, short and long options and the paper's spelling create a group."""
        group = shell.create(words)
        row = shell.show(group)
        assert (row["spending_rate"], row["nvm"], row["name"]) == (5.0, 1, f"group-{group}")
        shell.ok(f"delete {group} -y")


class TestEditing:
    def test_named_vms_end(self, shell: Shell) -> None:
        """No other VM ends."""
        group = shell.create("create vm.template -s 5 -n 3 --name renders")
        first, two, three = (vm["vm"] for vm in shell.until_running(group, 3)["vms"])
        shell.ok(f"edit renders --vm {two}")
        left = shell.until_running(group, 2)
        assert [vm["vm"] for vm in left["vms"]] == [first, three]
        assert shell.refused(f"edit {group} --vm {two}").endswith(f"not in group {group}\n")
        shell.ok(f"delete {group} -y")

    def test_deletion_asks_for_confirmation(self, shell: Shell) -> None:
        """Only "yes" confirms, and missing input does not."""
        group = shell.create()
        for typed in ("", "n\n", "maybe\n"):
            assert f"group {group} was not deleted" in shell.refused(f"delete {group}", 1, typed)
        assert shell.show(group)["state"] == "active"
        output = shell.ok(f"delete {group}", "y\n")
        assert output.startswith(f"Delete group {group} (group-{group}) and end its")

    def test_two_users_edit_the_same_group(self, shell: Shell) -> None:
        """The last edit applies, and the number of VMs is exact."""
        group = shell.create("create vm.template -s 5 -n 1")
        shell.ok(f"chmod {group} 666")
        for count in (3, 2, 4, 2):
            shell.login(BOB if count % 2 else ANN)
            shell.ok(f"edit {group} -n {count}")
        row = shell.until_running(group, 2)
        assert len(row["vm_ids"]) == 2
        shell.ok(f"delete {group} -y")


class TestRights:
    def test_users_see_their_own_groups(self, shell: Shell, site: Site) -> None:
        """Administrators see all, and permission bits let other users in."""
        group = shell.create()
        shell.login(BOB)
        assert f"\n{group} " not in "\n" + shell.ok("list --csv --no-header")
        assert "Not authorized to perform USE GROUP" in shell.refused(f"show {group}")
        shell.login(site.admin)
        listed = json.loads(shell.ok("list -j"))
        assert {"ann"} == {row["user"] for row in listed if row["id"] == group}
        shell.login(ANN)
        shell.ok(f"chmod {group} 644")
        shell.login(BOB)
        assert shell.show(group)["may"] == "um-u--u--"
        assert "Not authorized to perform MANAGE GROUP" in shell.refused(f"edit {group} -n 9")
        assert "MANAGE" in shell.refused(f"delete {group} -y")
        shell.login(ANN)
        assert "ADMIN" in shell.refused(f"chown {group} {site.users['bob']}")
        assert "ADMIN" in shell.refused(f"chmod {group} 677")
        shell.login(site.admin)
        shell.ok(f"chown {group} {site.users['bob']}")
        shell.login(BOB)
        shell.ok(f"rename {group} mine")
        assert shell.show(group)["name"] == "mine"
        shell.ok(f"chgrp mine {shell.show(group)['user_group']}")
        shell.ok("delete mine -y")


def test_a_name_means_the_users_own_group(shell: Shell, site: Site) -> None:
    """Another user can't block it with a group of this name that all users may use."""
    mine = shell.create("create vm.template -s 7 -n 1 --name web")
    shell.login(BOB)
    other = shell.create("create vm.template -s 7 -n 1 --name web")
    shell.ok(f"chmod {other} 604")
    shell.login(ANN)
    assert json.loads(shell.ok("show web -j"))["id"] == mine
    shell.ok("edit web -s 8")
    shell.login(site.admin)
    assert "several groups have the name" in shell.refused("show web")
    shell.ok(f"delete {mine} {other} -y")


class TestOutput:
    def test_output_has_forms_and_columns(self, shell: Shell) -> None:
        """CSV, JSON, XML, columns and filters work as in other commands."""
        group = shell.create("create vm.template -s 7 -n 1 --name forms")
        where = f"--filter ID={group}"
        assert shell.ok(f"list --csv -l ID,SRATE,NVM {where}") == f"ID,SRATE,NVM\n{group},7.0,1\n"
        (row,) = json.loads(shell.ok(f"list --json {where}"))
        assert (row["name"], row["perm"], row["octet"]) == ("forms", "um-------", "600")
        pool = etree.fromstring(shell.ok(f"list --xml {where}"))
        assert pool.findtext("GROUP/SRATE") == "7.0"
        assert "spending rate" in " ".join(shell.ok("list --describe").split())
        page = shell.ok("show forms")
        assert f"GROUP {group} INFORMATION" in page
        assert 'MEMORY="256"' in page
        shell.ok("delete forms -y")

    def test_watch_refreshes(self, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
        """It refreshes until Ctrl-C."""
        group, slept = shell.create(), []

        def sleep(seconds: float) -> None:
            slept.append(seconds)
            if len(slept) >= 3:
                raise KeyboardInterrupt

        monkeypatch.setattr("onegroup.show_verbs.sleep", sleep)
        assert shell(f"watch {group} -d 2").code == 130
        assert shell("watch").code == 130
        assert slept == [2.0, 2.0, 2.0, 5.0]
        shell.ok(f"delete {group} -y")


class TestRefusals:
    @pytest.mark.parametrize(
        ("words", "code", "why"),
        [
            ("create nothing.template -s 5 -n 1", 1, "template: VM template: "),
            ("create ./nothing -s 5 -n 1", 1, "no such file"),
            ("create vm.template", 2, "to create a group of users, run"),
            ("create vm.template -t vm.template -s 5 -n 1", 2, "exactly one TEMPLATE is required"),
            ("create vm.template -s 0 -n 1", 1, "must be more than 0"),
            ("create vm.template -s nan -n 1", 2, "credits a period"),
            ("create vm.template -s 5 -n 0", 1, "from 1 to 10000 VMs"),
            ("create vm.template -s 5 -n 1 --market nowhere", 1, "must be one of groups"),
            ("create vm.template -s 5 -n 1 --name 17", 1, "not only digits"),
            ("edit 1", 2, "nothing to change"),
            ("edit 4999 -n 1", 1, "Error getting group [4999]"),
            ("delete 4999 -y", 1, "Error getting group [4999]"),
            ("show nobody", 1, "no group has the name 'nobody'"),
            ("chmod 1 888", 2, "three digits"),
            ("quota 100", 2, "quota is a verb for OpenNebula's groups of users"),
            ("addadmin 1 2", 2, "OpenNebula"),
            ("manual nope", 2, "unknown verb 'nope'"),
            ("list -l NOPE", 2, "unknown column 'NOPE'"),
        ],
    )
    def test_errors_are_one_line(self, shell: Shell, words: str, code: int, why: str) -> None:
        """The line has the accepted values."""
        assert why in shell.refused(words, code)

    def test_a_missing_daemon_and_a_wrong_login_are_errors(self, shell: Shell) -> None:
        """Both have a text of their own."""
        assert "no answer" in shell.refused("list --endpoint http://127.0.0.1:9/RPC2")
        shell.login("ann:wrong")
        assert "couldn't be authenticated" in shell.refused("list")

    def test_attributes_for_administrators_are_rejected(self, shell: Shell) -> None:
        """The daemon's account creates a group's VMs, and must not lend its rights."""
        (shell.folder / "raw").write_text('CPU=1\nMEMORY=64\nRAW=[TYPE="kvm"]\n')
        assert "RAW is for administrators" in shell.refused("create raw -s 5 -n 1")
        (shell.folder / "bids").write_text("CPU=1\nMEMORY=64\nMERKAT_BID_CPU=9\n")
        assert "MERKAT_BID_CPU is not accepted" in shell.refused("create bids -s 5 -n 1")


def test_the_commands_of_the_page_run_in_order(shell: Shell) -> None:
    """Each command of docs/onegroup.md runs as shown, with the id that the first one printed."""
    commands = re.findall(r"^    onegroup (.+)$", PAGE, re.MULTILINE)
    assert len(commands) >= 9
    group = shell.create(commands[0])
    for command in commands[1:]:
        if command == "quota":
            assert "OpenNebula" in shell.refused(command, 2)
        else:
            shell.ok(re.sub(r"\bID\b(?!,)", str(group), command))
