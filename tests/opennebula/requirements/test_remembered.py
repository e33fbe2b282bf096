"""A text is evaluated once per change of the text or of its attributes; the cache is limited."""

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.opennebula.constraints import judge_feasibility
from merkatd.opennebula.pools.constraint_facts import HostFacts, NicWant, SiteFacts, VmRequirements
from merkatd.opennebula.requirements import (
    OF_ONED,
    OF_USERS,
    Expression,
    FactTable,
    Rank,
    RequirementError,
    answered,
    evaluate,
    host_ranks_of,
    hosts_where,
    parse,
    parse_rank,
    ranked,
)
from tests.lengths import EXAMPLES
from tests.opennebula.constraints.clouds import Vm, datastore, host, network, reason
from tests.opennebula.requirements.test_language_always import EXPRESSIONS, HOSTS, RANKS

Hosts = list[tuple[dict[str, list[str]], frozenset[int]]]


def table(hosts: Hosts, before: FactTable | None = None) -> FactTable:
    """Return the facts of these hosts."""
    return FactTable([host[0] for host in hosts], [host[1] for host in hosts], before)


@settings(max_examples=EXAMPLES)
@given(EXPRESSIONS, RANKS, st.lists(HOSTS, min_size=2, max_size=4), st.booleans())
def test_cached_results_equal_fresh_ones(
    expression: Expression, rank: Rank, moments: list[Hosts], same: bool
) -> None:
    """This holds for any changes of hosts between periods."""
    before: FactTable | None = None
    for hosts in [moments[0], *moments] if same else moments:
        now = table(hosts, before)
        assert answered(str(expression), OF_USERS, now).holds.tolist() == (
            hosts_where(expression, table(hosts)).tolist()
        )
        assert ranked(str(rank), now).worth.tolist() == host_ranks_of(rank, table(hosts)).tolist()
        before = now


@given(st.data())
def test_a_change_of_one_value_is_detected(data: st.DataObject) -> None:
    """One of several hosts changes a value that the text uses."""
    hosts: Hosts = [({"A": ["1"]}, frozenset()) for _ in range(4)]
    before = table(hosts)
    assert answered("A = 1", OF_USERS, before).holds.all()
    row = data.draw(st.integers(0, 3))
    hosts[row] = ({"A": ["2"]}, frozenset())
    holds = answered("A = 1", OF_USERS, table(hosts, before)).holds
    assert holds.tolist() == [at != row for at in range(4)]


class TestOnce:
    """Evaluation once per change of the text or of hosts."""

    TEXT = "ARCH = x86 & !(CORES < 4)"

    def evaluations(self, *moments: list[HostFacts], text: str = TEXT) -> list[int]:
        """Return the number of comparisons in each period."""
        vm, before, counts = Vm(wants=VmRequirements(requirements=text)), None, []
        for facts in moments:
            hosts = [host(0), host(1)]
            hosts = [
                type(host)(host.id, host.name, each)
                for host, each in zip(hosts, facts, strict=True)
            ]
            with patch.object(evaluate, "_compare_all", wraps=evaluate._compare_all) as compare:
                before = judge_feasibility([vm], hosts, SiteFacts(), before).tables
            counts.append(compare.call_count)
        return counts

    @staticmethod
    def facts(cores: str = "8", load: str = "1") -> list[HostFacts]:
        """Return two hosts."""
        values = {"ARCH": ["x86"], "CORES": [cores], "LOAD": [load]}
        return [HostFacts(row, 0, values) for row in range(2)]

    def test_nothing_is_evaluated_again_without_changes(self) -> None:
        """Changed attributes that no text uses do not count."""
        moments = (self.facts(), self.facts(), self.facts(load="2"), self.facts(load="3"))
        assert self.evaluations(*moments) == [2, 0, 0, 0]

    def test_only_changed_parts_are_evaluated_again(self) -> None:
        """Of two comparisons, only the one with the changed attribute is repeated."""
        assert self.evaluations(self.facts(), self.facts(cores="16"), self.facts()) == [2, 1, 1]

    def test_an_invalid_text_is_parsed_once(self) -> None:
        """Its error is cached like a result."""
        with patch.object(evaluate, "parse", wraps=parse) as read:
            self.evaluations(self.facts(), self.facts(load="2"), text="ARCH =")
        assert read.call_count == 1

    def test_unused_results_are_dropped(self) -> None:
        """Memory does not grow with the number of earlier texts."""
        before = judge_feasibility([], [], SiteFacts()).tables
        for number in range(20):
            vm = Vm(wants=VmRequirements(requirements=f"A = {number}", rank=f"A + {number}"))
            before = judge_feasibility([vm], [host(0)], SiteFacts(), before).tables
        assert len(before.hosts.answers) <= 2
        assert len(before.hosts.ranks) <= 2
        assert len(before.hosts.known) <= 2


class TestBounds:
    """Limits of users' texts."""

    def test_the_number_of_terms_is_limited(self) -> None:
        """One more term is rejected with the limit."""
        parse(" & ".join(["A = 1"] * OF_USERS.terms))
        parse_rank(" + ".join(["A"] * OF_USERS.terms))
        for read, joint, term in ((parse, " & ", "A = 1"), (parse_rank, " + ", "A")):
            with pytest.raises(RequirementError, match=f"more than {OF_USERS.terms} terms"):
                read(joint.join([term] * (OF_USERS.terms + 1)))

    def test_the_length_is_limited(self) -> None:
        """One more character is rejected."""
        parse("A = 1".ljust(OF_USERS.characters))
        with pytest.raises(RequirementError, match=f"more than {OF_USERS.characters} characters"):
            parse("A = 1".ljust(OF_USERS.characters + 1))
        with pytest.raises(RequirementError, match=f"at most {OF_USERS.text} characters"):
            parse(f'A = "{"a" * (OF_USERS.text + 1)}"')

    def test_oneds_own_requirements_have_larger_limits(self) -> None:
        """Oned may list every cluster of a large cloud."""
        text = " | ".join(f"CLUSTER_ID = {number}" for number in range(1, 5_000)) + " | ID = 0"
        assert len(text) < OF_ONED.characters
        assert reason([host(0)], wants=VmRequirements(automatic=text)) == ""

    @pytest.mark.parametrize(
        ("wants", "name"),
        [
            ({"requirements": "A = 1 & " * 60_000 + "A = 1"}, "SCHED_REQUIREMENTS"),
            ({"requirements_ds": "A = 1 & " * 101 + "A = 1"}, "SCHED_DS_REQUIREMENTS"),
            (
                {"nics": (NicWant(0, "A = 1 & " * 101 + "A = 1"),)},
                "NIC 0: SCHED_REQUIREMENTS of NIC 0",
            ),
        ],
    )
    def test_the_owner_gets_the_reason(self, wants: dict[str, Any], name: str) -> None:
        """It has the attribute and the limit."""
        estate = SiteFacts(datastores=[datastore(5, "a")], networks=[network(1, "lan")])
        why = reason([host(0)], estate, wants=VmRequirements(**wants))
        assert why.startswith(f"{name} can't be understood: ")
        assert "the most that are accepted" in why
        assert len(why) < 200
