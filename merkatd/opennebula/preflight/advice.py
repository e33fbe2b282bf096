"""Advice to administrators before Merkat acts: fitting modes, other balancers, missing rights.

The advice is derived from the facts that `inquiry` collected; this module makes no calls.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """The severity of a finding."""

    ERROR = "error"
    """Merkat can't work."""
    WARNING = "warning"
    """Merkat can work, but something will fail or be left out."""
    NOTE = "note"
    """A confirmation, or a next step."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A fact that an administrator should know, with its severity."""

    level: Level
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """A cluster of OpenNebula."""

    id: int
    name: str
    hosts: int = 0
    automation: str = ""
    """The AUTOMATION of the cluster's ONE_DRS, in lower case."""
    attributes: frozenset[str] = frozenset()
    """The attributes that a host of it has, in the host's template or in the cluster's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """The facts about a server."""

    version: str
    user: int
    groups: frozenset[int]
    clusters: Sequence[ClusterFacts] = ()
    missing: Sequence[str] = ()
    """Rights that the login lacks, in the form of `oneacl`."""
    drivers: Sequence[str] | None = None
    """ARGUMENTS of each SCHED_MAD; None if the login may not read the configuration."""
    drs_interval_s: float | None = None
    """The time between two balancings of a cluster, negative for none; None if it is not known."""
    raft_state: int | None = 0
    """The server's Raft state; None if the login may not read it."""
    embedded: bool = False
    """Whether it is an embedded cloud, whose hosts are simulated."""
    schedulers: Sequence[int] = ()
    """Process ids of running schedulers of OpenNebula up to 6.10, on this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketNeed:
    """A part of the snapshot that a market's strategy needs."""

    market: str
    strategy: str
    part: str
    attributes: frozenset[str]
    """The attributes of which a host of the market must have one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceInput:
    """The settings of the configuration that the advice depends on."""

    driver_mode: bool
    simulated_hosts: bool = False
    """Whether limits are set on the hosts of an embedded cloud."""
    markets: Mapping[str, frozenset[int | str] | None]
    """Cluster ids and names by market; None for the market that has all remaining clusters."""
    needs: Sequence[MarketNeed] = ()


ON_RULES = "ACL/* MANAGE"
_USER, _RULES, _MANAGE = 0x100000000, "80400000000", 2
_OWN_SCHEDULER_UP_TO = (7, 0)
_NAME = "merkat"
_RAFT = {0: "it is alone", 3: "it leads its zone"}


def findings(facts: ServerFacts, wish: AdviceInput) -> list[Finding]:
    """Return the errors and warnings about mode, other schedulers, clusters, hosts and login."""
    return [
        *_mode(facts, wish),
        *_balancers(facts, wish),
        *_clusters(facts, wish),
        *_needs(facts, wish),
        *_hosts(facts, wish),
        *_login(facts),
        *_raft(facts),
    ]


def market_findings(clusters: Sequence[ClusterFacts], wish: AdviceInput) -> list[Finding]:
    """Return the errors and warnings about markets alone, on a cloud without other schedulers."""
    facts = ServerFacts(
        version="", user=0, groups=frozenset(), clusters=clusters, drs_interval_s=-1.0
    )
    return [*_clusters(facts, wish), *_needs(facts, wish)]


def release(version: str) -> tuple[int, int]:
    """Return the first two numbers of a version; missing ones are 0."""
    numbers = [int(part) if part.isascii() and part.isdigit() else 0 for part in version.split(".")]
    first, second, *_ = [*numbers, 0, 0]
    return first, second


def _mode(facts: ServerFacts, wish: AdviceInput) -> Iterator[Finding]:
    if release(facts.version) < _OWN_SCHEDULER_UP_TO:
        if wish.driver_mode:
            yield Finding(
                Level.ERROR,
                f"cloud.mode must be daemon (got driver): OpenNebula {facts.version} has no"
                " scheduler drivers",
            )
        else:
            yield Finding(
                Level.NOTE,
                f"OpenNebula {facts.version}: mode daemon fits; its own scheduler must be masked:"
                " systemctl mask --now opennebula-scheduler",
            )
        return
    yield Finding(
        Level.NOTE,
        f"OpenNebula {facts.version}: both modes fit, {'driver' if wish.driver_mode else 'daemon'}"
        " is configured; in both oned.conf needs"
        f' SCHED_MAD = [ EXECUTABLE = "one_sched", ARGUMENTS = "-t 15 -p {_NAME} -o {_NAME}" ]'
        f" and remotes/scheduler/{_NAME} must contain the files that `merkatd driver` writes",
    )


def _balancers(facts: ServerFacts, wish: AdviceInput) -> Iterator[Finding]:
    for process in facts.schedulers:
        yield Finding(
            Level.WARNING,
            f"OpenNebula's own scheduler runs on this machine (process {process}): it and Merkat"
            " would both place VMs; systemctl mask --now opennebula-scheduler ends it",
        )
    if release(facts.version) < _OWN_SCHEDULER_UP_TO:
        return
    if facts.drivers is None:
        yield Finding(
            Level.WARNING,
            "this login may not see oned's configuration: check in oned.conf whether SCHED_MAD is"
            " Merkat's",
        )
    for arguments in facts.drivers or ():
        words = arguments.split()
        for option, what in (("-p", "places"), ("-o", "optimises")):
            chosen = words[words.index(option) + 1 :][:1] if option in words else []
            if chosen != [_NAME]:
                yield Finding(
                    Level.WARNING,
                    f"oned's own scheduler {' '.join(chosen) or 'by default'} {what}: in oned.conf"
                    f" SCHED_MAD's ARGUMENTS should have {option} {_NAME}, not {arguments!r}",
                )
    automated = any(cluster.automation in {"partial", "full"} for cluster in facts.clusters)
    if wish.driver_mode and not automated:
        yield Finding(
            Level.WARNING,
            "in mode driver Merkat migrates only in clusters for which oned asks: no cluster has"
            ' ONE_DRS = [ AUTOMATION = "full" ], so no VM is ever migrated',
        )


def _clusters(facts: ServerFacts, wish: AdviceInput) -> Iterator[Finding]:
    rest = [name for name, clusters in wish.markets.items() if clusters is None]
    balances = facts.drs_interval_s is None or facts.drs_interval_s >= 0
    for cluster in facts.clusters:
        called = f"cluster {cluster.id} ({cluster.name})"
        if balances and cluster.automation in {"partial", "full"} and not wish.driver_mode:
            yield Finding(
                Level.WARNING,
                f"{called} has ONE_DRS automation {cluster.automation}: two balancers fight;"
                ' AUTOMATION = "manual", or DRS_INTERVAL = -1 in oned.conf, ends that',
            )
        called_so = {cluster.id, cluster.name}
        owners = [name for name, ones in wish.markets.items() if ones and called_so & ones]
        if len(owners) > 1:
            yield Finding(
                Level.ERROR,
                f"{called} belongs to the markets {', '.join(owners)}: it must be in only one",
            )
        if not owners and not rest:
            yield Finding(
                Level.WARNING,
                f"{called} is outside every market: its {cluster.hosts} hosts are left alone",
            )
    known = {word for cluster in facts.clusters for word in (cluster.id, cluster.name)}
    for name, ones in wish.markets.items():
        for missing in sorted((ones or frozenset()) - known, key=str):
            yield Finding(
                Level.ERROR,
                f"market {name}: cluster {missing} does not exist, or the login can't see it;"
                f" the clusters are {_names(facts.clusters)}",
            )
    if not any(cluster.hosts for cluster in facts.clusters):
        yield Finding(Level.WARNING, "no host can be seen: none exists, or rights are missing")


def _names(clusters: Sequence[ClusterFacts]) -> str:
    return ", ".join(f"{cluster.id} ({cluster.name})" for cluster in clusters) or "none"


def _needs(facts: ServerFacts, wish: AdviceInput) -> Iterator[Finding]:
    """Judge each need by the hosts of its market; a market without hosts lacks nothing."""
    for need in wish.needs:
        filled = [cluster for cluster in _of_market(facts, wish, need.market) if cluster.hosts]
        if filled and not any(cluster.attributes & need.attributes for cluster in filled):
            yield Finding(
                Level.ERROR,
                f"market {need.market}: strategy {need.strategy} needs {need.part}, so a host of"
                f" the market must have {' or '.join(sorted(need.attributes))} (none has)",
            )


def _of_market(facts: ServerFacts, wish: AdviceInput, market: str) -> list[ClusterFacts]:
    """Return the clusters of a market: those that it names, or those that no other one names."""
    ones = wish.markets[market]
    if ones is None:
        others = {word for named in wish.markets.values() if named for word in named}
        return [each for each in facts.clusters if not {each.id, each.name} & others]
    return [each for each in facts.clusters if {each.id, each.name} & ones]


def _hosts(facts: ServerFacts, wish: AdviceInput) -> Iterator[Finding]:
    if wish.simulated_hosts and not facts.embedded:
        yield Finding(
            Level.ERROR,
            "hypervisor.kind must not be embedded, because the hosts are not simulated and no"
            " period could read them: use libvirt to set limits, or none",
        )


def _login(facts: ServerFacts) -> Iterator[Finding]:
    if facts.user == 0 or 0 in facts.groups:
        yield Finding(Level.NOTE, "the login is an administrator's")
        return
    for right in facts.missing:
        given = f"oneacl create {_rule(facts.user, right)}"
        yield Finding(Level.ERROR, f"the login lacks a right: {given} gives it")
    if not facts.missing:
        yield Finding(Level.NOTE, f"the login, user {facts.user}, has all necessary rights")


def _rule(user: int, right: str) -> str:
    """Return a rule in the form of `oneacl`: rules on rules, which it can't name, as numbers."""
    if right == ON_RULES:
        return f"{_USER | user:x} {_RULES} {_MANAGE}"
    return f"'#{user} {right}'"


def _raft(facts: ServerFacts) -> Iterator[Finding]:
    if facts.raft_state is None:
        return
    if facts.raft_state in _RAFT:
        yield Finding(Level.NOTE, f"the server accepts changes: {_RAFT[facts.raft_state]}")
    else:
        yield Finding(
            Level.WARNING,
            "the server does not lead its zone: Merkat is on standby until it does",
        )
