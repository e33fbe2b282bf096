"""The comparisons for an owner's texts have a limit, shared by all its VMs."""

from typing import Any

import pytest

from merkatd.opennebula.constraints import judge_feasibility, text_allowances
from merkatd.opennebula.pools.constraint_facts import NicWant, SiteFacts, VmRequirements
from tests.opennebula.constraints.clouds import Vm, host


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow ten terms for each owner."""
    monkeypatch.setattr(text_allowances, "_LEAST_TERMS", 10)
    monkeypatch.setattr(text_allowances, "MOST", 20)


def text(number: int, terms: int = 4) -> str:
    """Return a requirement that all hosts meet, different for each number."""
    return " | ".join(['A = "1"', *(f'A = "{number}.{row}"' for row in range(1, terms))])


@pytest.mark.usefixtures("few")
def test_vms_beyond_the_limit_wait_with_a_reason() -> None:
    """Older VMs count first, and other owners are not affected."""
    hosts = [host(0, says={"A": "1"}), host(1, says={"A": "1"})]
    vms = [Vm(vm, owner=vm // 4, wants=VmRequirements(requirements=text(vm))) for vm in range(8)]
    reasons = judge_feasibility(vms, hosts, SiteFacts()).constraints.unplaceable
    assert list(reasons) == [2, 3, 6, 7]
    assert all("more than 10 terms in all" in why for why in reasons.values())


@pytest.mark.usefixtures("few")
def test_a_text_counts_once_for_all_its_vms() -> None:
    """VMs with the same text share its terms."""
    vms = [Vm(vm, owner=1, wants=VmRequirements(requirements=text(0, 10))) for vm in range(5)]
    hosts = [host(0, says={"A": "1"}), host(1, says={"A": "1"})]
    assert judge_feasibility(vms, hosts, SiteFacts()).constraints.unplaceable == {}


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("name", ["requirements", "rank", "requirements_ds", "rank_ds", "nics"])
def test_every_text_counts(name: str) -> None:
    """Two texts of half the limit fit, and a third one does not."""

    def wants(number: int) -> VmRequirements:
        if name == "nics":
            return VmRequirements(nics=(NicWant(0, text(number, 5)),))
        ranked = name.startswith("rank")
        expression = " + ".join([f"A{number}", *["FREE_CPU"] * 4]) if ranked else text(number, 5)
        given: dict[str, Any] = {name: expression}
        return VmRequirements(**given)

    counted = text_allowances.Allowances(hosts=2)
    assert [counted.covers(1, wants(number)) for number in range(3)] == [True, True, False]
    left = text_allowances.without_texts(wants(9))
    assert text_allowances.Allowances(hosts=10**9).covers(1, left)
    assert not any(text for text, _ in text_allowances._texts(left))
