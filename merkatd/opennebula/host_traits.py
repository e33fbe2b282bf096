"""Traits of hosts from their templates: failure domains, topology, link speed and power.

Only administrators write the templates of hosts and clusters. A host without an attribute has that
of its cluster. A mistake has no effect on other attributes or hosts; it is logged once, and
`merkatd status --json` has it as long as it is there.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain

import numpy as np
from twisted.logger import Logger

from merkatd.cluster import Floats, Ints
from merkatd.cluster.columns import NO_ROW
from merkatd.opennebula.pools.host_pool import HostRow
from merkatd.opennebula.sleep_marks import is_asleep
from merkatd.scheduler.base.traits import NETWORK, POWER, HostTraits
from merkatd.scheduler.traits.template_values import MAX_AMOUNT, amount

_log = Logger()

_DOMAINS = {NETWORK: "MERKAT_NETWORK_DOMAIN", POWER: "MERKAT_POWER_DOMAIN"}
_TOPOLOGY = "MERKAT_TOPOLOGY"
_LINK = "MERKAT_LINK"
_IDLE, _FULL = "MERKAT_IDLE_WATTS", "MERKAT_FULL_WATTS"
_GOODS = {"MERKAT_NETWORK": "Mbit/s", "MERKAT_DISK": "MiB/s"}
_MOST_LEVELS = 8
"""The most levels of a topology."""
_SHOWN = 40
"""The number of characters of a value that a message shows."""
_HOSTS_IN_LINE = 5
_MOST_LINES = 20
"""The most lines that one observation logs."""

_Pair = tuple[str, ...]
_Problems = defaultdict[int, list[str]]


def host_traits_of(hosts: Sequence[HostRow], clusters: Mapping[int, str]) -> HostTraits:
    """Return the traits of hosts that have all their facts; `clusters` are names by id.

    OpenNebula does not know which hosts can be switched off.
    """
    problems: _Problems = defaultdict(list)
    numbers = {
        name: _numbers(hosts, name, unit, problems)
        for name, unit in ((_LINK, "Mbit/s"), (_IDLE, "W"), (_FULL, "W"), *_GOODS.items())
    }
    _check_power(hosts, numbers[_IDLE], numbers[_FULL], problems)
    domains = {kind: _domains(hosts, name, problems) for kind, name in _DOMAINS.items()}
    return HostTraits(
        domains={kind: pairs for kind, pairs in domains.items() if pairs is not None},
        topology=_topology(hosts, clusters, problems),
        link_mbit_s=numbers[_LINK],
        idle_watts=numbers[_IDLE],
        full_watts=numbers[_FULL],
        can_sleep=np.zeros(len(hosts), dtype=bool),
        asleep=np.array([is_asleep(host) for host in hosts], dtype=bool),
        problems={host: tuple(texts) for host, texts in problems.items()},
    )


def _texts(hosts: Sequence[HostRow], name: str) -> Iterator[tuple[int, str]]:
    """Yield the row and the value of each host that has the attribute; empty ones are missing."""
    for row, host in enumerate(hosts):
        values = host.facts.values.get(name)
        if values and (value := values[0].strip()):
            yield row, value


def _short(value: str) -> str:
    return repr(value[:_SHOWN])


def _numbers(hosts: Sequence[HostRow], name: str, unit: str, problems: _Problems) -> Floats:
    """[hosts]: the value of the attribute, NaN for hosts without a valid one."""
    numbers = np.full(len(hosts), np.nan)
    for row, value in _texts(hosts, name):
        number = amount(value)
        if number is None or (name == _LINK and number == 0):
            least = "above 0" if name == _LINK else "from 0"
            problems[hosts[row].id].append(
                f"{name} must be a number {least} to {MAX_AMOUNT:g}, in {unit} (got"
                f" {_short(value)})"
            )
        else:
            numbers[row] = number
    return numbers


def _check_power(hosts: Sequence[HostRow], idle: Floats, full: Floats, problems: _Problems) -> None:
    for row in np.flatnonzero(idle > full).tolist():
        problems[hosts[row].id].append(
            f"{_IDLE} must be at most {_FULL} = {full[row]:g} (got {idle[row]:g})"
        )
        idle[row] = full[row] = np.nan


@lru_cache(maxsize=1 << 12)
def _pair_in(text: str) -> _Pair | None:
    """Return the one or two different names in a text, None if there are others."""
    names = tuple(text.replace(",", " ").split())
    return names if 1 <= len(names) <= 2 and len(set(names)) == len(names) else None


def _domains(hosts: Sequence[HostRow], name: str, problems: _Problems) -> Ints | None:
    """[hosts, 2]: the numbers of the domains in alphabetical order; None if no host has one."""
    named: dict[int, _Pair] = {}
    for row, value in _texts(hosts, name):
        pair = _pair_in(value)
        if pair is None:
            problems[hosts[row].id].append(
                f"{name} must be one or two different names (got {_short(value)})"
            )
        else:
            named[row] = pair
    if not named:
        return None
    uses = Counter(chain.from_iterable(named.values()))
    number = {domain: at for at, domain in enumerate(sorted(uses))}
    numbers = np.full((len(hosts), 2), NO_ROW)
    for row, pair in named.items():
        numbers[row, : len(pair)] = [number[domain] for domain in pair]
        for domain in pair:
            if uses[domain] == 1 < len(hosts):
                problems[hosts[row].id].append(f"{name}: no other host names {_short(domain)}")
    return numbers


@lru_cache(maxsize=1 << 14)
def _path_in(text: str) -> _Pair | None:
    """Return the names of a topology, from the widest level; None if the text has no such form."""
    names = tuple(name.strip() for name in text.split("/"))
    return names if all(names) and len(names) <= _MOST_LEVELS else None


def _topology(hosts: Sequence[HostRow], clusters: Mapping[int, str], problems: _Problems) -> Ints:
    """[hosts, levels]: the numbers of places; the cluster alone for hosts without the attribute.

    Equal numbers of a level mean the same place: two racks of the same name in different clusters
    are different places. Missing levels count as one place without a name.
    """
    paths = [(clusters.get(host.cluster) or str(host.cluster),) for host in hosts]
    stated, depths = list[_Pair](paths), Counter[int]()
    for row, value in _texts(hosts, _TOPOLOGY):
        path = _path_in(value)
        if path is None:
            problems[hosts[row].id].append(
                f"{_TOPOLOGY} must be 1 to {_MOST_LEVELS} names, separated by / (got"
                f" {_short(value)})"
            )
        else:
            stated[row] = path
            depths[len(path)] += 1
    most = max(map(len, stated), default=0)
    # With a level too many, one host is wrong, and not all the others.
    usual = max(depths, key=lambda depth: (depths[depth], depth), default=most)
    for row, path in enumerate(stated):
        if len(path) != usual:
            problems[hosts[row].id].append(
                f"{_TOPOLOGY} must have {usual} levels, as those of other hosts (got"
                f" {_short('/'.join(path))})"
            )
        stated[row] = path + ("",) * (most - len(path))
    levels = np.zeros((len(hosts), most), dtype=np.int64)
    for level in range(most):
        places = [path[: level + 1] for path in stated]
        number = {place: at for at, place in enumerate(sorted(set(places)))}
        levels[:, level] = [number[place] for place in places]
    return levels


class TraitWarnings:
    """Logs each mistake in the attributes of hosts once, until it is corrected."""

    def __init__(self) -> None:
        self._known: frozenset[tuple[int, str]] = frozenset()

    def log(self, problems: Mapping[int, Sequence[str]], names: Mapping[int, str]) -> None:
        """Log the mistakes that the observation before did not have; `names` are of all hosts.

        The other mistakes of a host are not logged again if one of them is corrected.
        """
        now = frozenset((host, why) for host, texts in problems.items() for why in texts)
        hosts_with: dict[str, list[str]] = {}
        for host, why in sorted(now - self._known):
            hosts_with.setdefault(why, []).append(names[host])
        self._known = now
        for line, (why, hosts) in enumerate(hosts_with.items()):
            if line == _MOST_LINES:
                _log.warn(
                    "{count} more wrong host attributes are not logged; `merkatd"
                    " status --json` has them",
                    count=len(hosts_with) - line,
                )
                break
            more = len(hosts) - _HOSTS_IN_LINE
            shown = ", ".join(hosts[:_HOSTS_IN_LINE]) + (f" and {more} more" if more > 0 else "")
            _log.warn("Wrong host attribute on {hosts}: {why}", hosts=shown, why=why)
