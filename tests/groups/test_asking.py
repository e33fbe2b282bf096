"""Answers about VMs in markets that charge for use: rates, and the cost of full use."""

from collections.abc import Iterator
from typing import Any

import pytest

from merkatd.commands import list_command, market_commands, status_commands, vm_commands
from merkatd.commands.terminal import to_text
from merkatd.commands.terminal.output import rows_of
from merkatd.commands.texts import plan_text
from merkatd.service.base.errors import InvalidRequestError
from tests.groups.site import Site, template
from tests.served import questions_at


class Asked(Site):
    """Two hosts of four cores with a group of three VMs at 60, and the daemon's questions."""

    def __init__(self) -> None:
        super().__init__(hosts=2)
        self.questions = questions_at(self.scheduler)
        self.group_id = self.create(60.0, 3)
        self.run_periods(4)
        self.shared, self.alone = self._two_vms()

    def run_periods(self, count: int = 1) -> None:
        """Run periods, of which the last can be queried."""
        self.scheduler.latest = self.periods(count)

    def ask(self, question: str, **arguments: Any) -> Any:
        """Return the answer."""
        return self.wait(self.questions.answer(question, arguments))

    def _two_vms(self) -> tuple[int, int]:
        rows = rows_of(self.ask("vms"))
        by_share = sorted(rows, key=lambda row: row["cpu"])
        assert [row["cpu"] for row in by_share] == [200.0, 200.0, 300.0]
        return by_share[0]["id"], by_share[2]["id"]


@pytest.fixture(scope="module")
def asked() -> Iterator[Asked]:
    """Yield a site whose VMs run."""
    made = Asked()
    yield made
    made.agree()
    made.close()


def test_lists_and_top_show_rate_and_cost(asked: Asked) -> None:
    """60 credits for each core give costs for two and three cores, and how long credits last."""
    rows = {row["id"]: row for row in rows_of(asked.ask("vms"))}
    assert (rows[asked.shared]["rate"], rows[asked.shared]["cost"]) == (60.0, 120.0)
    assert (rows[asked.alone]["rate"], rows[asked.alone]["cost"]) == (60.0, 180.0)
    (row,) = rows_of(asked.ask("applications"))
    assert row["cost"] == 420.0
    assert row["lasts"] == pytest.approx(row["balance"] / 420.0)
    head, *lines = to_text(list_command.VMS.chosen("ID,RATE,COST"), list(rows.values()), 80)
    assert head.split() == ["ID", "RATE", "COST"]
    assert [str(asked.shared), "60", "120"] in [line.split() for line in lines]
    frame = status_commands.frame(asked.ask("overview"), 200, None)
    assert any("RATE" in line and "COST" in line for line in frame)


def test_markets_that_charge_for_shares_show_no_rates() -> None:
    """The column is missing, and prices are as usual."""
    row = {"rate": None, "cost": 1.0}
    columns = list_command.VMS.default()
    assert "RATE" in [column.name for column in columns]
    frame = status_commands._vms([dict.fromkeys([c.key for c in columns]) | row], 200)
    assert "RATE" not in frame[0]


def test_explain_names_the_groups_rate_and_the_highest_cost(asked: Asked) -> None:
    """It also says that memory is not sold."""
    answer = asked.ask("explain", vm=str(asked.shared))
    assert answer["bid_source"] == f"group {asked.group_id}"
    assert (answer["rate"], answer["cost"]) == (60.0, 120.0)
    page = " ".join(
        "\n".join(vm_commands._explain_text({**answer, "interval_s": 60.0}, None)).split()
    )
    assert "at most 120 credits a period, 60 for each core that it uses" in page
    assert "cpu: floor 0, cap 300, costs at most 120 a period" in page
    assert "memory: floor 1,024, cap 1,024, is not sold; why not more: it is all" in page


def test_a_quote_for_a_vm_of_a_group_uses_the_groups_rate(asked: Asked) -> None:
    """A bid of 30 is a rate of 90; 30 to 20 of 400 are 240, at 90 a core."""
    answer = asked.ask("quote", vm=str(asked.shared), cpu=30.0)
    cpu, memory = answer["resources"]
    assert (cpu["share"], cpu["price"], cpu["cost"]) == pytest.approx((240.0, 0.9, 216.0))
    assert (memory["share"], memory["cost"]) == (1024.0, 0.0)
    assert (answer["rate"], answer["cost"]) == pytest.approx((90.0, 216.0))
    assert (
        "at most 216 credits a period, 90 for each core"
        in market_commands._quote_text({**answer, "interval_s": 60.0}, 100)[0]
    )


def test_a_quote_for_a_new_group_holds(asked: Asked) -> None:
    """A group of one VM with this rate gets the quoted share and cost."""
    quote = asked.ask("quote", market="groups", most_cpu=300.0, most_memory=1024.0, cpu=20.0)
    cpu, memory = quote["resources"]
    assert (cpu["share"], cpu["cost"]) == pytest.approx((200.0, 40.0))
    assert (memory["share"], memory["cost"]) == (1024.0, 0.0)
    least = asked.ask("quote", market="groups", most_cpu=300.0, want_cpu=200.0)
    assert least["resources"][0]["bid"] == pytest.approx(20.0)
    none = asked.ask("quote", market="groups", most_cpu=300.0, want_cpu=1_000.0)
    assert none["cost"] is None
    assert "rate" not in none
    group = asked.create(20.0, 1, asked.bob, template=template(3))
    asked.run_periods(3)
    (vm,) = asked.vms(group)
    row = next(row for row in rows_of(asked.ask("vms")) if row["id"] == vm)
    assert (row["cpu"], row["rate"], row["cost"]) == pytest.approx((200.0, 20.0, 40.0))
    asked.delete(group)
    asked.run_periods(3)


def test_a_plan_knows_the_rates_of_new_vms(asked: Asked) -> None:
    """A dry run shows the next period's steps, with the highest cost of new VMs."""
    group = asked.create(30.0, 2, asked.bob)
    asked.run_periods()
    plan = asked.ask("plan")
    costs = {step["vm"]: step["cost"] for step in plan["steps"] if step["kind"] == "deploy"}
    assert {step["rate"] for step in plan["steps"] if step["kind"] == "deploy"} == {30.0}
    page = plan_text.plan_lines(plan, 5, None)
    assert any("(costs at most " in line for line in page)
    asked.run_periods()
    rows = {row["id"]: row["cost"] for row in rows_of(asked.ask("vms"))}
    assert costs == {vm: pytest.approx(rows[vm]) for vm in asked.vms(group)}
    asked.delete(group)
    asked.run_periods(3)


def test_the_bid_of_a_groups_vm_cannot_be_changed(asked: Asked) -> None:
    """Such a bid would have no effect, and without a number the command shows the present bid."""
    with pytest.raises(InvalidRequestError, match=f"onegroup edit {asked.group_id} -s RATE"):
        asked.ask("bid", vm=str(asked.shared), cpu=9.0)
    (cpu, _) = asked.ask("bid", vm=str(asked.shared))["resources"]
    assert (cpu["old"], cpu["cost"]) == (20.0, 120.0)
