"""Failures and repairs of hosts and of whole domains.

A *unit* is what fails by itself: a host, or a domain of a kind (network, power). A host with a
redundant domain of a kind is cut off only while both have failed.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from merkatd.cluster import Bools, FailureRates, Floats, Hosts, Ints
from merkatd.cluster.columns import NO_ROW
from simulator.kernel.data_center import HOST_UNIT
from simulator.workloads.random_streams import StreamPurpose, stream_of

YEAR_S: Final = 365.0 * 86_400.0
USUAL_REPAIR_S: Final = 3600.0


class Outages:
    """The units, which of them have failed, and the hosts that this cuts off."""

    def __init__(self, hosts: Hosts) -> None:
        count = len(hosts)
        self.begin = {HOST_UNIT: 0}
        """The first unit of each kind."""
        self.size = {HOST_UNIT: count}
        self._domain: list[Ints] = []
        self._redundant: list[Ints] = []
        total = count
        for kind, pairs in hosts.domains.items():
            self.begin[kind] = total
            self.size[kind] = int(pairs.max(initial=-1)) + 1
            self._domain.append(np.where(pairs[:, 0] < 0, NO_ROW, pairs[:, 0] + total))
            self._redundant.append(np.where(pairs[:, 1] < 0, NO_ROW, pairs[:, 1] + total))
            total += self.size[kind]
        self.failed: Bools = np.zeros(total + 1, dtype=bool)
        """[units]: whether each has failed. The last entry is for no unit, which always has."""
        self.failed[NO_ROW] = True
        self._hosts = count

    def cut_off(self, hosts: Ints) -> Bools:
        """Return whether each of these hosts has failed or is cut off."""
        cut: Bools = self.failed[hosts].copy()
        for domain, redundant in zip(self._domain, self._redundant, strict=True):
            first, second = domain[hosts], redundant[hosts]
            # A host in no domain of a kind depends on none of it.
            cut |= (first != NO_ROW) & self.failed[first] & self.failed[second]
        return cut

    def affected(self, units: Ints) -> Ints:
        """Return the hosts that depend on any of these units."""
        alone = units[units < self._hosts]
        wider = units[units >= self._hosts]
        if not len(wider):
            return alone
        depends = np.zeros(self._hosts, dtype=bool)
        depends[alone] = True
        for column in (*self._domain, *self._redundant):
            depends |= np.isin(column, wider)
        return np.flatnonzero(depends)


def draw_outages(
    outages: Outages,
    rates: FailureRates,
    repair_s: Mapping[str, float],
    span_s: float,
    seed: int,
) -> tuple[tuple[Floats, Ints], tuple[Floats, Ints]]:
    """Return times and units of all failures within the span, and those of all repairs.

    Units fail after exponential times, and are repaired after exponential times. Each kind has
    streams of its own, and every unit draws in each round: other repairs leave the times between a
    repair and the next failure as they are.
    """
    failures, repairs = [(np.zeros(0), _NONE)], [(np.zeros(0), _NONE)]
    for kind, per_year in zip(rates.kind, rates.per_year.tolist(), strict=True):
        if per_year <= 0:
            continue
        size, begin = outages.size[kind], outages.begin[kind]
        failing = stream_of(seed, StreamPurpose.FAILURES, kind)
        repairing = stream_of(seed, StreamPurpose.REPAIRS, kind)
        mean_s = repair_s.get(kind, USUAL_REPAIR_S)
        at_s = np.zeros(size)
        while size and (at_s < span_s).any():
            at_s = at_s + failing.exponential(YEAR_S / per_year, size)
            fails = np.flatnonzero(at_s < span_s)
            failures.append((at_s[fails], fails + begin))
            at_s = at_s + repairing.exponential(mean_s, size)
            repairs.append((at_s[fails], fails + begin))
    return _joined(failures), _joined(repairs)


_NONE: Ints = np.zeros(0, dtype=np.int64)


def _joined(parts: list[tuple[Floats, Ints]]) -> tuple[Floats, Ints]:
    times, units = zip(*parts, strict=True)
    return np.concatenate(times), np.concatenate(units)
