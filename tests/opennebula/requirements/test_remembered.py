"""A text is worked out once per change of it, or of what it asks about; and it is bounded."""

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
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
from tests.opennebula.constraints.clouds import Vm, datastore, host, network, why
from tests.opennebula.requirements.test_language_always import EXPRESSIONS, HOSTS, RANKS

Hosts = list[tuple[dict[str, list[str]], frozenset[int]]]


def table(hosts: Hosts, before: FactTable | None = None) -> FactTable:
    """The facts of these hosts."""
    return FactTable([one[0] for one in hosts], [one[1] for one in hosts], before)


@given(EXPRESSIONS, RANKS, st.lists(HOSTS, min_size=2, max_size=4), st.booleans())
def test_what_is_remembered_is_what_would_be_found_anew(
    expression: Expression, rank: Rank, moments: list[Hosts], same: bool
) -> None:
    """However hosts change from one period to the next, or do not."""
    before: FactTable | None = None
    for hosts in [moments[0], *moments] if same else moments:
        now = table(hosts, before)
        assert answered(str(expression), OF_USERS, now).holds.tolist() == (
            hosts_where(expression, table(hosts)).tolist()
        )
        assert ranked(str(rank), now).worth.tolist() == host_ranks_of(rank, table(hosts)).tolist()
        before = now


@given(st.data())
def test_a_change_of_one_value_is_noticed(data: st.DataObject) -> None:
    """Where one host out of some says something else about what is asked."""
    hosts: Hosts = [({"A": ["1"]}, frozenset()) for _ in range(4)]
    before = table(hosts)
    assert answered("A = 1", OF_USERS, before).holds.all()
    row = data.draw(st.integers(0, 3))
    hosts[row] = ({"A": ["2"]}, frozenset())
    found = answered("A = 1", OF_USERS, table(hosts, before)).holds
    assert found.tolist() == [at != row for at in range(4)]


class TestOnce:
    """Per change of the text, or of hosts."""

    TEXT = "ARCH = x86 & !(CORES < 4)"

    def evaluations(self, *moments: list[HostFacts], text: str = TEXT) -> list[int]:
        """How often a comparison was made in each period."""
        vm, before, counts = Vm(wants=VmRequirements(requirements=text)), None, []
        for facts in moments:
            hosts = [host(0), host(1)]
            hosts = [
                type(one)(one.id, one.name, each) for one, each in zip(hosts, facts, strict=True)
            ]
            with patch.object(evaluate, "_compare_all", wraps=evaluate._compare_all) as compare:
                before = judge_feasibility([vm], hosts, SiteFacts(), before).tables
            counts.append(compare.call_count)
        return counts

    @staticmethod
    def facts(cores: str = "8", load: str = "1") -> list[HostFacts]:
        """Two hosts."""
        values = {"ARCH": ["x86"], "CORES": [cores], "LOAD": [load]}
        return [HostFacts(row, 0, values) for row in range(2)]

    def test_nothing_is_compared_again_while_nothing_changes(self) -> None:
        """Also where a host says something new of which nobody asks."""
        moments = (self.facts(), self.facts(), self.facts(load="2"), self.facts(load="3"))
        assert self.evaluations(*moments) == [2, 0, 0, 0]

    def test_only_what_changed_is_compared_again(self) -> None:
        """Of two comparisons the one whose attribute changed."""
        assert self.evaluations(self.facts(), self.facts(cores="16"), self.facts()) == [2, 1, 1]

    def test_a_text_that_is_refused_is_read_once(self) -> None:
        """It is remembered as well as one that is not."""
        with patch.object(evaluate, "parse", wraps=parse) as read:
            self.evaluations(self.facts(), self.facts(load="2"), text="ARCH =")
        assert read.call_count == 1

    def test_what_nobody_asks_any_more_is_forgotten(self) -> None:
        """Memory does not grow with the texts that there were."""
        before = judge_feasibility([], [], SiteFacts()).tables
        for number in range(20):
            vm = Vm(wants=VmRequirements(requirements=f"A = {number}", rank=f"A + {number}"))
            before = judge_feasibility([vm], [host(0)], SiteFacts(), before).tables
        assert len(before.hosts.answers) <= 2
        assert len(before.hosts.ranks) <= 2
        assert len(before.hosts.known) <= 2


class TestBounds:
    """What a user may write."""

    def test_as_many_terms_as_there_may_be(self) -> None:
        """And one more is refused, with the number that is right."""
        parse(" & ".join(["A = 1"] * OF_USERS.terms))
        parse_rank(" + ".join(["A"] * OF_USERS.terms))
        for read, joint, term in ((parse, " & ", "A = 1"), (parse_rank, " + ", "A")):
            with pytest.raises(RequirementError, match=f"more than {OF_USERS.terms} terms"):
                read(joint.join([term] * (OF_USERS.terms + 1)))

    def test_as_long_as_it_may_be(self) -> None:
        """And one character more is refused."""
        parse("A = 1".ljust(OF_USERS.characters))
        with pytest.raises(RequirementError, match=f"more than {OF_USERS.characters} characters"):
            parse("A = 1".ljust(OF_USERS.characters + 1))
        with pytest.raises(RequirementError, match=f"at most {OF_USERS.text} characters"):
            parse(f'A = "{"a" * (OF_USERS.text + 1)}"')

    def test_oned_may_name_every_cluster_of_a_large_cloud(self) -> None:
        """What it writes itself is not a user's."""
        text = " | ".join(f"CLUSTER_ID = {number}" for number in range(1, 5_000)) + " | ID = 0"
        assert len(text) < OF_ONED.characters
        assert why([host(0)], wants=VmRequirements(automatic=text)) == ""

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
    def test_the_owner_is_told_why(self, wants: dict[str, Any], name: str) -> None:
        """With the attribute, and what it may be at most."""
        estate = SiteFacts(datastores=[datastore(5, "a")], networks=[network(1, "lan")])
        said = why([host(0)], estate, wants=VmRequirements(**wants))
        assert said.startswith(f"{name} can't be understood: ")
        assert "the most that are accepted" in said
        assert len(said) < 200
