"""Plans in the form that oned parses: whole numbers, and lines for its log."""

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from merkatd.cluster import Deploy, Migrate
from merkatd.opennebula.driver.driver_answer import EMPTY, answer, line, plan
from merkatd.opennebula.driver.driver_request import DriverRequest, OfferedHost
from merkatd.scheduler.execution.delegation import DelegatedPlan

ONEDS_LINE = re.compile(r"^(ERROR|INFO|WARN|DEBUG):\s+(\d+)?\s*(.*)$")


def parsed(text: str) -> Any:
    """Return the last line, parsed."""
    return etree.fromstring(text.splitlines()[-1])


def test_every_action_has_all_its_numbers() -> None:
    """The datastore is usable in the host's cluster and has the most room."""
    action = DriverRequest(
        stores={3: frozenset({100, 101, 102}), 4: frozenset()},
        networks={3: {0: frozenset({7, 5})}},
        clusters={1: 0, 2: 9},
        datastores={
            100: OfferedHost(frozenset({0}), 10),
            101: OfferedHost(frozenset({0}), 20),
            102: OfferedHost(frozenset({9}), 900),
        },
        vnets={5: OfferedHost(frozenset({0})), 7: OfferedHost(frozenset({0}))},
    )
    steps = (
        Deploy(period=1, vm=3, host=1, reason=""),
        Deploy(period=1, vm=4, host=2, reason=""),
    )
    assert plan(steps, action, None) == (
        "<PLAN><ID>-1</ID>"
        "<ACTION><VM_ID>3</VM_ID><OPERATION>deploy</OPERATION><HOST_ID>1</HOST_ID><DS_ID>101</DS_ID>"
        "<NIC><NIC_ID>0</NIC_ID><NETWORK_ID>5</NETWORK_ID></NIC></ACTION>"
        "<ACTION><VM_ID>4</VM_ID><OPERATION>deploy</OPERATION><HOST_ID>2</HOST_ID><DS_ID>-1</DS_ID>"
        "</ACTION></PLAN>"
    )


def test_a_plan_for_a_cluster_has_its_id() -> None:
    """Migrations need no datastore."""
    placement = parsed(
        plan([Migrate(period=1, vm=3, source=0, host=1, reason="")], DriverRequest(), 12)
    )
    assert placement.findtext("ID") == "12"
    assert placement.findtext("ACTION/OPERATION") == "migrate"
    assert placement.findtext("ACTION/DS_ID") == "-1"


def test_the_empty_plan_is_constant() -> None:
    """It is the same for every request."""
    assert plan([], DriverRequest(), None) == plan([], DriverRequest(), 4) == EMPTY
    assert EMPTY == "<PLAN><ID>-1</ID></PLAN>"


def test_a_vm_without_a_place_has_a_reason() -> None:
    """The line has ERROR and the VM's id, and oned shows it to the owner."""
    handed = DelegatedPlan(reasons={8: "no host\nhas room", 5: "too large"})
    first, second, last = answer(handed, DriverRequest(), None).splitlines()
    assert (first, second) == ("ERROR: 5 too large", "ERROR: 8 no host has room")
    assert last == EMPTY


@given(st.text(max_size=600), st.none() | st.integers(0, 10**6))
def test_any_reason_is_one_line_that_oned_parses(text: str, vm: int | None) -> None:
    """The name of a VM may contain anything."""
    log_line = line("ERROR", text, vm)
    assert len(log_line.splitlines()) == 1
    match = ONEDS_LINE.match(log_line)
    assert match is not None
    if vm is not None:
        assert match[2] == str(vm)
