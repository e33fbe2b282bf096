"""Advice for administrators before Merkat acts: the right mode, and other schedulers."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from merkatd.embedded.model.settings import EmbeddedSettings
from merkatd.opennebula.preflight.advice import (
    AdviceInput,
    ClusterFacts,
    Finding,
    Level,
    MarketNeed,
    ServerFacts,
    findings,
    release,
)
from merkatd.opennebula.preflight.inquiry import (
    NEEDED,
    Call,
    CallRefusedError,
    calling,
    inquire,
    processes_named,
)
from tests.embedded.support import ADMIN, Bench

OURS = "-t 15 -p merkat -o merkat"
CLUSTER = ClusterFacts(id=0, name="default", hosts=3)
OLD = ServerFacts(version="6.10.0.1", user=0, groups=frozenset({0}), clusters=(CLUSTER,))
NEW = replace(OLD, version="7.4.0", drivers=(OURS,))
DAEMON = AdviceInput(driver_mode=False, markets={"default": None})
DRIVER = replace(DAEMON, driver_mode=True)
FULL = replace(CLUSTER, automation="full")


def texts_of(facts: ServerFacts, wish: AdviceInput, *levels: Level) -> list[str]:
    """Return the findings of these levels."""
    return [finding.text for finding in findings(facts, wish) if finding.level in levels]


def warnings_of(facts: ServerFacts, wish: AdviceInput) -> list[str]:
    """Return errors and warnings."""
    return texts_of(facts, wish, Level.ERROR, Level.WARNING)


@pytest.mark.parametrize(("facts", "wish"), [(OLD, DAEMON), (NEW, DAEMON)])
def test_a_correct_cloud_has_no_warnings(facts: ServerFacts, wish: AdviceInput) -> None:
    """The other scheduler is mentioned in a note."""
    assert warnings_of(facts, wish) == []


def test_up_to_6_10_only_the_daemon_mode_works() -> None:
    """The scheduler must be masked."""
    assert "systemctl mask --now opennebula-scheduler" in texts_of(OLD, DAEMON, Level.NOTE)[0]
    assert ["cloud.mode must be daemon" in line for line in texts_of(OLD, DRIVER, Level.ERROR)] == [
        True
    ]


def test_from_7_on_both_modes_work() -> None:
    """The note has the lines for oned.conf."""
    note = texts_of(NEW, DAEMON, Level.NOTE)[0]
    assert f'ARGUMENTS = "{OURS}"' in note
    assert warnings_of(replace(NEW, clusters=(FULL,)), DRIVER) == []


@pytest.mark.parametrize(
    ("facts", "wish", "words"),
    [
        (replace(OLD, schedulers=(4711,)), DAEMON, "scheduler runs on this machine (process 4711)"),
        (replace(NEW, drivers=None), DAEMON, "may not see oned's configuration"),
        (replace(NEW, drivers=("-t 15 -p rank -o merkat",)), DAEMON, "scheduler rank places"),
        (replace(NEW, drivers=("-t 15 -p merkat -o one_drs",)), DAEMON, "one_drs optimises"),
        (replace(NEW, drivers=("-t 15 -p merkat",)), DAEMON, "by default optimises"),
        (replace(NEW, clusters=(FULL,)), DAEMON, "automation full: two balancers fight"),
        (NEW, DRIVER, "no VM is ever migrated"),
        (replace(OLD, clusters=()), DAEMON, "no host can be seen"),
        (replace(OLD, raft_state=2), DAEMON, "does not lead its zone"),
        (OLD, replace(DAEMON, markets={"a": frozenset[int | str]()}), "is outside every market"),
    ],
)
def test_problems_are_warnings(facts: ServerFacts, wish: AdviceInput, words: str) -> None:
    """Merkat can work, but with restrictions."""
    warnings = texts_of(facts, wish, Level.WARNING)
    assert any(words in warning for warning in warnings), warnings
    assert texts_of(facts, wish, Level.ERROR) == []


def test_without_automatic_balancing_oned_does_not_compete() -> None:
    """The cluster's automation then has no effect."""
    assert warnings_of(replace(NEW, clusters=(FULL,), drs_interval_s=-1.0), DAEMON) == []
    assert warnings_of(replace(NEW, clusters=(FULL,), drs_interval_s=300.0), DAEMON) != []


def test_two_markets_on_one_cluster_are_an_error() -> None:
    """Each would sell the whole cluster."""
    wish = replace(DAEMON, markets={"a": frozenset({"default"}), "b": frozenset({0, 1})})
    assert "belongs to the markets a, b" in texts_of(OLD, wish, Level.ERROR)[0]


@pytest.mark.parametrize("missing", [3, "x"])
def test_a_market_of_a_missing_cluster_is_an_error(missing: int | str) -> None:
    """Its VMs would never get a host; the error lists the clusters that exist."""
    wish = replace(DAEMON, markets={"a": frozenset({missing}), "b": None})
    (error,) = texts_of(OLD, wish, Level.ERROR)
    assert f"market a: cluster {missing} does not exist" in error
    assert error.endswith("the clusters are 0 (default)")


def test_simulated_hosts_of_a_real_server_are_an_error() -> None:
    """No period could read them."""
    wish = replace(DAEMON, simulated_hosts=True)
    assert "hypervisor.kind must not be embedded" in texts_of(OLD, wish, Level.ERROR)[0]
    assert texts_of(replace(OLD, embedded=True), wish, Level.ERROR) == []


DOMAINS = frozenset({"MERKAT_POWER_DOMAIN", "MERKAT_NETWORK_DOMAIN"})
NEEDY = MarketNeed(market="gold", strategy="spread", part="domains", attributes=DOMAINS)
PLAIN = ClusterFacts(id=1, name="gold", hosts=2, attributes=frozenset({"NOTE"}))
DESCRIBED = replace(CLUSTER, attributes=frozenset({"MERKAT_POWER_DOMAIN"}))


@pytest.mark.parametrize("ones", [frozenset({"gold"}), frozenset({1}), None])
def test_needs_are_judged_by_the_clusters_of_a_market(ones: frozenset[int | str] | None) -> None:
    """Hosts of other markets do not count, and a market without hosts lacks nothing."""
    other = frozenset[int | str]({0}) if ones is None else None
    wish = AdviceInput(driver_mode=False, markets={"default": other, "gold": ones}, needs=(NEEDY,))
    facts = replace(OLD, clusters=(DESCRIBED, PLAIN))
    assert texts_of(facts, wish, Level.ERROR) == [
        (
            "market gold: strategy spread needs domains, so a host of the market must have"
            " MERKAT_NETWORK_DOMAIN or MERKAT_POWER_DOMAIN (none has)"
        )
    ]
    for cluster in (replace(PLAIN, hosts=0), replace(PLAIN, attributes=DESCRIBED.attributes)):
        facts = replace(OLD, clusters=(CLUSTER, cluster))
        assert texts_of(facts, wish, Level.ERROR) == []
    also = replace(wish, needs=(replace(NEEDY, market="default"),))
    facts = replace(OLD, clusters=(DESCRIBED, PLAIN))
    assert texts_of(facts, also, Level.ERROR) == []


def test_attributes_of_hosts_and_clusters_are_read() -> None:
    """A host has the attributes of its cluster; empty ones are missing."""
    bench = Bench(hosts=2)
    cluster = bench.ok("one.cluster.allocate", "gold")
    bench.ok("one.cluster.addhost", cluster, 1)
    bench.ok("one.host.update", 0, 'MERKAT_POWER_DOMAIN="a"', 0)
    bench.ok("one.host.update", 1, 'MERKAT_POWER_DOMAIN=""', 0)
    bench.ok("one.cluster.update", cluster, 'MERKAT_NETWORK_DOMAIN="b"', 1)
    facts = inquire(call_as(bench, ADMIN))
    assert {each.name: DOMAINS & each.attributes for each in facts.clusters} == {
        "default": {"MERKAT_POWER_DOMAIN"},
        "gold": {"MERKAT_NETWORK_DOMAIN"},
    }
    bench.cloud.close()


def test_versions_are_compared_by_two_numbers() -> None:
    """Only the first two numbers count."""
    assert release("6.10.0.1") == (6, 10)
    assert release("7") == (7, 0)
    assert release("beta") == (0, 0)


def call_as(bench: Bench, session: str) -> Call:
    """Return a function that calls the cloud as a user."""

    def call(method: str, *arguments: Any) -> Any:
        answer = bench.raw(method, *arguments, session=session)
        if not answer[0]:
            raise CallRefusedError(answer[1])
        return answer[1]

    return call


def test_an_administrators_server_is_inspected() -> None:
    """All facts need few calls."""
    bench = Bench(hosts=3, settings=EmbeddedSettings(version="7.4.0"))
    facts = inquire(call_as(bench, ADMIN))
    assert (facts.version, facts.user, facts.missing) == ("7.4.0", 0, ())
    assert facts.drivers == ()
    assert [(cluster.id, cluster.name, cluster.hosts) for cluster in facts.clusters] == [
        (0, "default", 3)
    ]
    bench.ok("one.cluster.update", 0, 'ONE_DRS=[AUTOMATION="Full"]', 1)
    assert inquire(call_as(bench, ADMIN)).clusters[0].automation == "full"
    bench.cloud.close()


def _rules_first() -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Yield the rights, starting with the one to read the rules."""
    yield from sorted(NEEDED, key=lambda entry: entry[0] != ("ACL",))


def test_missing_rights_are_named_as_commands() -> None:
    """Each is an oneacl command, and afterwards nothing is missing."""
    bench = Bench(hosts=3)
    user = bench.ok("one.user.allocate", "merkat", "secret", "core")
    facts = inquire(call_as(bench, "merkat:secret"))
    assert facts.missing == ("ACL/* MANAGE",)
    kinds = {"VM": 36, "HOST": 37, "NET": 38, "USER": 40, "GROUP": 42, "ACL": 43, "ZONE": 47}
    kinds |= {"DATASTORE": 44, "CLUSTER": 45, "VMGROUP": 53}
    rights = {"USE": 1, "MANAGE": 2, "ADMIN": 4}
    numbered = f"oneacl create {0x100000000 + user:x} 80400000000 2 gives it"
    assert texts_of(facts, DAEMON, Level.ERROR) == [f"the login lacks a right: {numbered}"]
    for given, (names, needed) in enumerate(_rules_first()):
        resource = sum(1 << kinds[name] for name in names) + 0x400000000
        numbers = (
            0x100000000 + user,
            resource,
            sum(rights[right] for right in needed),
            0x400000000,
        )
        bench.ok("one.acl.addrule", *(f"{number:x}" for number in numbers))
        facts = inquire(call_as(bench, "merkat:secret"))
        assert len(facts.missing) == len(NEEDED) - 1 - given
        rule = f"oneacl create '#{user} VM/* USE+MANAGE+ADMIN'"
        error = Finding(Level.ERROR, f"the login lacks a right: {rule} gives it")
        assert (error in findings(facts, DAEMON)) == (names == ("ACL",))
    facts = inquire(call_as(bench, "merkat:secret"))
    assert facts.missing == ()
    assert texts_of(facts, DAEMON, Level.ERROR) == []
    bench.cloud.close()


def test_an_unreachable_server_is_an_error() -> None:
    """It is the operating system's own error."""
    server = calling("http://127.0.0.1:1/RPC2", ADMIN, 1.0)
    with server as call, pytest.raises(ConnectionRefusedError):
        call("one.system.version")


def test_a_running_scheduler_is_found(tmp_path: Path) -> None:
    """It is found by its process name."""
    for number, name in ((12, "mm_sched"), (7, "oned"), (99, "mm_sched")):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "comm").write_text(f"{name}\n")
    (tmp_path / "13").mkdir()
    (tmp_path / "self").mkdir()
    assert list(processes_named(tmp_path, "mm_sched")) == [12, 99]
