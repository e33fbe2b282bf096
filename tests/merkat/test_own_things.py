"""A tenant sees and changes its own things, and never those of another tenant."""

import pytest

from tests.api.xmlrpc.test_calls import PATIENT_PLATFORM, PLATFORM
from tests.merkat.shell import TenantShell
from tests.onegroup.site import ANN, BOB, Site, until


def test_lists_show_own_things(site: Site, shell: TenantShell) -> None:
    """Ann has VM 0 and Bob has VM 1, on the same host."""
    for session, own, id_, bid in ((ANN, "a", 0, 2), (BOB, "b", 1, 6)):
        shell.login(session)
        rows = [row for row in shell.json("list vms") if row["name"] in {"a", "b"}]
        assert [(row["id"], row["name"], row["bid_cpu"]) for row in rows] == [(id_, own, bid)]
        vms = {row["id"] for row in shell.json("list vms")}
        (host,) = shell.json("list hosts")
        assert host["vms"] == len(vms)
        assert host["bids_cpu"] == pytest.approx(
            sum(row["bid_cpu"] for row in shell.json("list vms"))
        )
        assert host["used_cpu"] is None
        steps = shell.json("log --limit 1000")
        assert steps
        assert {step["vm"] for step in steps} <= vms
        (row,) = shell.json("list applications")
        assert row["owner"] == site.users["ann" if own == "a" else "b" + "ob"]
        shown = shell.ok("top --once")
        assert own in shown
        statement = shell.json("statement")
        assert statement["id"] == row["owner"]
        assert {line["uid"] for line in statement["lines"]} <= {row["owner"]}


@pytest.mark.parametrize(
    "words",
    [
        "explain 1",
        "bid 1",
        "bid 1 --cpu 9",
        "quote 1 --cpu 9",
        "order set 1 --limit 3",
        "statement bob",
        "statement {bob}",
        "budget --tenant {bob}",
        "platform list --tenant {bob}",
        "platform submit later.toml --yes --tenant {bob}",
        "explain b",
        "log --vm b",
    ],
)
def test_another_tenants_things_are_refused(words: str, site: Site, shell: TenantShell) -> None:
    """In one line; a name of another tenant's VM is no name."""
    (shell.folder / "later.toml").write_text(PLATFORM)
    line = shell.refused(words.format(bob=site.users["bob"]))
    assert "Not authorized" in line or "no VM of yours" in line or "no tenant of yours" in line


def test_budgets_begin_with_the_own_account(site: Site, shell: TenantShell) -> None:
    """It has the balance of the statement, and the applications follow."""
    own, *applications = shell.json("budget")
    assert (own["name"], own["owner"], own["application"]) == (
        "own account",
        site.users["ann"],
        None,
    )
    assert own["micro"] == round(own["balance"] * 1_000_000)
    assert own["budget"] > 0
    assert applications == shell.json(f"budget --tenant {site.users['ann']}")
    first = shell.ok("budget").splitlines()[1]
    assert "own account" in first


def test_another_tenants_steps_are_left_out(shell: TenantShell) -> None:
    """Also by id."""
    assert shell.json("log --vm 1") == []
    assert shell.json("log --vm 0") != []


def test_platforms_of_another_tenant_stay_hidden(shell: TenantShell) -> None:
    """They can be neither shown nor stopped."""
    (shell.folder / "later.toml").write_text(PLATFORM)
    mine = shell.json("platform submit later.toml --yes")["id"]
    assert mine in {row["id"] for row in shell.json("platform list")}
    shell.login(BOB)
    assert mine not in {row["id"] for row in shell.json("platform list")}
    for verb in ("show", "stop", "suspend"):
        assert "Not authorized" in shell.refused(f"platform {verb} {mine}")
    shell.login(ANN)
    assert shell.json(f"platform show {mine}")["name"] == "later"
    assert "`merkat platform resume`" in shell.ok(f"platform suspend {mine}")
    assert shell.json(f"platform update {mine} --budget 2")["budget"] == 2
    assert shell.json(f"platform stop {mine}")["state"] == "cancelled"


class TestSubmission:
    """`merkat platform submit` shows what it costs, and asks."""

    def test_nothing_is_submitted_without_a_yes(self, shell: TenantShell) -> None:
        """No answer is a no, too."""
        (shell.folder / "later.toml").write_text(PLATFORM)
        before = shell.json("platform list")
        for typed in ("", "n\n", "maybe\n"):
            result = shell("platform submit later.toml", typed)
            assert (result.code, result.out) == (1, "")
            assert "The budget of 1 credits moves from your account" in result.err
            assert "Price of cpu in market" in result.err
            assert result.err.endswith("was not submitted\n")
        assert shell.json("platform list") == before

    def test_a_patient_platform_has_a_quote(self, shell: TenantShell) -> None:
        """And after a yes, standard output has the platform alone."""
        (shell.folder / "later.toml").write_text(PATIENT_PLATFORM)
        quote = shell.ok("platform quote later.toml")
        result = shell("platform submit later.toml --list NAME,STATE --csv", "y\n")
        assert result.code == 0
        assert result.out.splitlines()[0] == "NAME,STATE"
        # The rest of the line is a moment, which goes on between the two.
        assert quote.partition(" before ")[0] in result.err
        assert "a limit of 0 now: it must not start before" in quote

    def test_standard_input_can_not_answer_for_itself(self, shell: TenantShell) -> None:
        """A template from a pipe needs --yes, which nothing else accepts."""
        assert "--yes" in shell.refused("platform submit -")
        assert "--yes" in shell.refused("platform list --yes", 2)

    def test_a_wrong_template_is_refused_by_the_daemon(self, shell: TenantShell) -> None:
        """With its reasons; the file must exist."""
        (shell.folder / "later.toml").write_text(PLATFORM.replace("credits", "credit"))
        assert "credits" in shell.refused("platform submit later.toml --yes")
        assert "No such file" in shell.refused("platform submit nowhere.toml")


class TestBids:
    """A VM's bid, alone and in a limit order."""

    def test_a_bid_can_be_changed_and_read(self, shell: TenantShell) -> None:
        """By id and by name."""
        answer = shell.json("bid a --cpu 3")
        assert (answer["id"], answer["changed"]) == (0, True)
        assert {row["resource"]: row["new"] for row in answer["resources"]}["cpu"] == 3
        assert "bids:" in shell.ok("bid 0")
        shell.ok("bid 0 --cpu 2")

    def test_a_limit_order_is_stated_changed_and_deleted(self, shell: TenantShell) -> None:
        """Bob sees it in the book, and not in his list."""
        order = shell.json("order set a --limit 30")["id"]
        assert [row["id"] for row in shell.json("order list")] == [order]
        assert "at most 31 credits" in shell.ok(f"order change {order} --limit 31")
        shell.login(BOB)
        assert shell.json("order list") == []
        assert "not yours" in shell.refused(f"order delete {order}")
        shell.login(ANN)
        assert "its own bid counts again" in shell.ok(f"order delete {order}")
        assert shell.json("order list") == []

    def test_bids_and_wishes_can_be_quoted_together(self, shell: TenantShell) -> None:
        """The bid for one resource, the amount of another."""
        rows = shell.json("quote 0 --want-cpu 20 --memory 5")["resources"]
        found = {row["resource"]: row for row in rows}
        assert found["cpu"]["wanted"] == 20
        assert found["memory"]["bid"] == 5


class TestNewVms:
    """`merkat vm create`: a newcomer's first VM, in one command."""

    def test_a_vm_comes_with_its_bid_and_runs(self, site: Site, shell: TenantShell) -> None:
        """It belongs to the login, and its bid is the one given."""
        vm = int(shell.ok("vm create vm.template --name first --cpu 3.5 --memory 1").split()[1])

        def runs() -> bool:
            rows = [row for row in shell.json("list vms") if row["id"] == vm]
            return bool(rows) and rows[0]["state"] == "RUNNING"

        until(runs, "the VM runs")
        row = next(row for row in shell.json("list vms") if row["id"] == vm)
        assert (row["name"], row["bid_cpu"], row["bid_memory"]) == ("first", 3.5, 1)
        assert row["owner"] == site.users["ann"]
        shell.login(BOB)
        assert vm not in {row["id"] for row in shell.json("list vms")}
        site.terminate(ANN, vm)

    def test_a_lost_answer_names_the_vm_that_may_exist(
        self, site: Site, shell: TenantShell
    ) -> None:
        """Repeated at once, the command would create the VM twice."""
        admin = (site.state / "one_auth").read_text().strip()
        before = {row["id"] for row in shell.json("list vms")}
        lost = {"kind": "lose", "method": "one.vm.allocate"}
        site.opennebula(admin, "embedded.fault.add", lost)
        line = shell.refused("vm create vm.template --name lost")
        site.opennebula(admin, "embedded.fault.clear")
        assert "the VM may exist, so look for it before you create it again" in line

        def runs() -> bool:
            new = [row for row in shell.json("list vms") if row["id"] not in before]
            return bool(new) and new[0]["state"] == "RUNNING"

        until(runs, "the VM exists and runs")
        (vm,) = {row["id"] for row in shell.json("list vms")} - before
        site.terminate(ANN, vm)

    def test_a_bid_replaces_that_of_the_template(self, site: Site, shell: TenantShell) -> None:
        """Of a text, and of a template in OpenNebula, by id and by name."""
        text = 'CPU="0.1"\nMEMORY="64"\nMERKAT_BID_CPU="9"\nMERKAT_BID_CPU="8"'
        stored = site.opennebula(ANN, "one.template.allocate", f'NAME="small"\n{text}')
        for word in ("-", str(stored), "small"):
            said = shell(f"vm create {word} --cpu 0.0000001 --json", text)
            assert said.code == 0, said
            vm = int(said.out.partition('"id": ')[2].partition(",")[0])
            shown = site.opennebula(ANN, "one.vm.info", vm)
            assert shown.count("MERKAT_BID_CPU>") == 2
            assert "<![CDATA[0.0000001]]></MERKAT_BID_CPU>" in shown
            site.terminate(ANN, vm)

    @pytest.mark.parametrize(
        ("words", "typed", "why"),
        [
            ("vm create -", "MEMORY", "template"),
            (
                "vm create -",
                'CPU="1"\nMEMORY="64"\nRAW=[ TYPE="kvm", DATA="<x/>" ]',
                "restricted attribute",
            ),
            ("vm create -", "<VM/>", "not XML"),
            ("vm create 4711", "", "4711"),
            ("vm create nowhere", "", "is named 'nowhere', and no file has this name"),
            ("vm create ./nowhere", "", "no such file"),
            ("vm create vm.template --disk 4", "", "disk is not sold"),
        ],
    )
    def test_a_wrong_request_is_refused_in_a_line(
        self, words: str, typed: str, why: str, shell: TenantShell
    ) -> None:
        """OpenNebula decides with the tenant's own rights."""
        assert why in shell.refused(words, typed=typed)


def test_groups_have_the_verbs_of_onegroup(shell: TenantShell) -> None:
    """With the address and the login of this command."""
    id_ = shell.ok("group create vm.template -s 6 -n 1 --name mine").split()[1]
    assert [row["name"] for row in shell.json("group list")] == ["mine"]
    assert "SPENDING RATE" in shell.ok(f"group show {id_}")
    assert shell.refused("group show nothing").startswith("merkat group show: no group")
    shell.ok(f"group delete {id_} --yes")
    until(lambda: shell.json("group list") == [], "the group over")
    shell.login("ann:wrong")
    assert "rejects the login" in shell.refused("group list")
