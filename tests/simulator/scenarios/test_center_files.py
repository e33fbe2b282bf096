"""Files of whole data centres: their meaning, and their errors."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from merkatd.placement import registry
from merkatd.placement.contract import Need
from simulator.scenarios.center_scenario import (
    CenterScenario,
    center_scenario_of,
    describes_center,
)
from simulator.scenarios.scenario_values import ScenarioError
from simulator.scenarios.workload_tables import requests_of

HEAD = 'systems = ["first-fit", "pack"]\nspan = "2h"\n'
HOSTS = "[[hosts]]\ncount = 8\ncores = 8\nmemory_mib = 65536\n"
VMS = "[[workload]]\nrequests = 20\n"
SMALL = f"{HEAD}{HOSTS}{VMS}"
LINE = "vm{0},tenant,deployment,{1},{2},90,50,80,Interactive,{3},{4}\n"


def read(text: str, folder: Path = Path()) -> CenterScenario:
    """Return the scenario of a text."""
    return center_scenario_of(text, folder / "some.toml")


def test_a_file_defines_hosts_domains_failures_and_times() -> None:
    """Each value arrives at the kernel's data centre."""
    scenario = read(
        HEAD
        + """
[center]
tree = [2, 3]
period = "2m"
monitor = "5m"
patience = "1h"
decide_at_events = true
[[hosts]]
count = 2
cores = 16
memory_mib = 131072
idle_watts = 100
full_watts = 200
can_sleep = true
[[hosts]]
count = 4
cores = 8
memory_mib = 65536
link_mbps = 10000
[domains]
network = 3
power = { count = 2, redundant = true }
[failures]
host = { per_year = 4 }
power = { per_year = 1, repair = "4h" }
[operations]
boot_s = 12
[tariff]
energy_kwh = 0.25
[prices]
reserve_cpu = 0.5
[settings.pack]
"""
        + VMS
    )
    (point,) = scenario.points
    center, hosts = point.center, point.center.hosts
    assert hosts.capacity.tolist() == [[1600, 131072]] * 2 + [[800, 65536]] * 4
    assert hosts.topology.tolist() == [[0]] * 3 + [[1]] * 3
    assert hosts.full_watts.tolist() == [200, 200, 0, 0, 0, 0]
    assert hosts.can_sleep.tolist() == [True] * 2 + [False] * 4
    assert np.isnan(hosts.link_mbps).tolist() == [True] * 2 + [False] * 4
    assert hosts.domains["network"].tolist() == [[at // 2, -1] for at in range(6)]
    assert hosts.domains["power"].tolist() == [[0, 1]] * 3 + [[1, 0]] * 3
    assert (center.rates.kind, center.rates.per_year.tolist()) == (("host", "power"), [4, 1])
    assert center.repair_s == {"host": 3600.0, "power": 14_400.0}
    rhythm = center.rhythm
    assert (rhythm.period_s, rhythm.monitor_s, rhythm.patience_s) == (120, 300, 3600)
    assert rhythm.decide_at_events
    assert (center.costs.boot_s, center.tariff.energy_kwh) == (12, 0.25)
    assert point.deciders.pricing.reserve["cpu"] == 0.5
    assert point.span_s == 7200
    assert (scenario.name, scenario.systems, scenario.seeds) == ("some", ("first-fit", "pack"), 4)


def test_one_kind_of_hosts_fills_the_tree() -> None:
    """Its number then need not be given."""
    text = SMALL.replace("count = 8\n", "").replace(
        HOSTS[:9], "[center]\ntree = [2, 2, 3]\n[[hosts]]"
    )
    (point,) = read(text).points
    assert len(point.center.hosts) == 12


def test_workloads_are_joined_and_a_seed_draws_them_again() -> None:
    """Two equal tables draw different requests, and other seeds others."""
    (point,) = read(SMALL + VMS).points
    first, again, other = (requests_of(point.draws, seed) for seed in (1, 1, 2))
    assert len(first) == 40
    assert np.array_equal(first.arrival_s, again.arrival_s)
    assert not np.array_equal(first.arrival_s, other.arrival_s)
    arrivals = first.arrival_s[first.arrival_s > 0]
    assert len(np.unique(arrivals)) == len(arrivals)


def test_a_sweep_reads_the_file_with_each_combination() -> None:
    """Parameters are written in quotes or as tables; a number chooses one of several tables."""
    scenario = read(
        SMALL + VMS + '[sweep]\n"workload.2.requests" = [30, 40]\ncenter.period = ["1m", "5m"]\n'
    )
    assert [point.swept for point in scenario.points] == [
        {"workload.2.requests": requests, "center.period": period}
        for requests in (30, 40)
        for period in ("1m", "5m")
    ]
    assert [point.center.rhythm.period_s for point in scenario.points] == [60, 300, 60, 300]
    counts = [len(requests_of(point.draws, 0)) for point in scenario.points]
    assert counts == [50, 50, 60, 60]
    (first, second) = read(f"{SMALL}[sweep]\nworkload.requests = [5, 6]\n").points
    assert len(requests_of(first.draws, 0)) + 1 == len(requests_of(second.draws, 0)) == 6


def test_the_kind_of_a_file_is_told_by_its_keys(tmp_path: Path) -> None:
    """All other scenarios describe a cloud of equal nodes with its applications."""
    file = tmp_path / "some.toml"
    for text, is_center in ((SMALL, True), ("[cloud]\nnodes = 3\n", False), ("[", False)):
        file.write_text(text)
        assert describes_center(file) is is_center


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{SMALL}[centre]\n", "centre: unknown key; did you mean 'center'?"),
        (SMALL.replace("cores", "core"), "hosts[1].core: unknown key; did you mean 'cores'?"),
        (SMALL.replace("cores = 8\n", ""), "hosts[1].cores: is missing"),
        (SMALL.replace("cores = 8", "cores = -1"), "hosts[1].cores = -1: must be a number"),
        (SMALL.replace("first-fit", "first-fir"), "did you mean 'first-fit'?"),
        (SMALL.replace("pack", "first-fit"), "systems = ['first-fit', 'first-fit']: must not have"),
        (HEAD + HOSTS, "[[workload]]: at least one table is required"),
        (HEAD + VMS, "[[hosts]]: at least one table is required"),
        (SMALL.replace('span = "2h"\n', ""), "span: is missing"),
        (f"{SMALL}[center]\ntree = [2, 3]\nperiod = 5\n", "center.period = 5: must be a duration"),
        (
            f"{SMALL}[[hosts]]\ncores = 1\nmemory_mib = 1\n[center]\ntree = [2, 3]\n",
            "the counts must add up to the leaves of center.tree, 2 x 3 = 6 (got 9)",
        ),
        (
            f"{SMALL}[domains]\npower = 9\n",
            "domains.power = 9: must be at most one for each of the 8 hosts",
        ),
        (
            SMALL.replace("count = 8", "count = 1000000") + "[[hosts]]\ncount = 1\ncores = 1\n",
            "hosts: must be at most 1000000 in all (got 1000001)",
        ),
        (
            SMALL.replace("count = 8\n", "") + "[center]\ntree = [1000, 1001]\n",
            "center.tree: must have at most 1000000 leaves (got 1001000)",
        ),
        (f"{SMALL}[domains]\nhost = 2\n", "is the kind of single hosts"),
        (
            f"{SMALL}[failures]\npower = {{ per_year = 1 }}\n",
            "failures.power: unknown key; known: host",
        ),
        (f"{SMALL}[failures]\nhost = {{ repair = '1h' }}\n", "failures.host.per_year: is missing"),
        (
            SMALL.replace("memory_mib = 65536", "memory_mib = 16384"),
            "VM type r3.xlarge (2 cores and 31232 MiB) fits on no host: hosts have 8 cores and 163",
        ),
        (
            f"{SMALL}[[workload.type]]\nname = 'wide'\ncores = 9\nmemory_mib = 10\n",
            "VM type wide (9 cores and 10 MiB) fits on no host: hosts have 8 cores",
        ),
        (f"{SMALL}[settings.pack]\nhold = 'x'\n", "settings.pack.hold"),
        (f"{SMALL}[settings.tabu]\n", "settings.tabu: systems has no tabu, so no run would use it"),
        (f"{SMALL}[settings.packs]\n", "settings.packs: unknown key; did you mean 'pack'?"),
        (f"{SMALL}[settings.pack.pricing]\n", "write a table [prices] instead"),
        (f"{SMALL}[prices]\nrule = 'x'\n", "prices.rule = 'x': must be one of"),
        (f"plot = ['active']\n{SMALL}", "plot = ['active']: did you mean 'active_hosts'?"),
        (f"{SMALL}[sweep]\nseeds = [1, 2]\n", "sweep.seeds: seeds is the same for all runs"),
        (f"{SMALL}[sweep]\nspan = '1h'\n", "sweep.span = '1h': must be a list of values"),
        (
            f"{SMALL}[sweep]\nworkload.request = [1]\n",
            "at workload.request = 1: workload[1].request: unknown key; did you mean 'requests'?",
        ),
        (f"{SMALL}[sweep]\n'workload.2.requests' = [1]\n", "the file has no such table"),
        (f"{SMALL}[center]\nmonitor = '0.0001s'\n", "center.monitor: must fit at most 10000000"),
        ("[hosts", "Expected ']'"),
        ("hosts = 3\nsweep = 3\ncenter = 3\n", "center: must be a table"),
    ],
)
def test_errors_name_the_key_and_what_is_accepted(text: str, message: str) -> None:
    """All are told with the name of the file."""
    with pytest.raises(ScenarioError) as caught:
        read(text)
    assert message in str(caught.value)
    assert all(line.startswith("some.toml: ") for line in str(caught.value).splitlines())


@pytest.mark.parametrize(
    ("lines", "more", "message"),
    [
        (LINE.format(1, 0, 60, 2, 4) + "vm2,tenant\n", "", "vms.csv:2: a VM must have 11 columns"),
        (LINE.format(1, 0, "x", 2, 4), "", "vms.csv:1: the time of deletion must be a number"),
        (
            LINE.format(1, 60, 90, 2, 4)
            + LINE.format(2, 0, 60, 9, 4)
            + LINE.format(3, 0, 60, 9, 4),
            "",
            "2 of 3 VMs fit on no host, first that of line 2 (9 cores and 4096 MiB)",
        ),
        (LINE.format(1, 8000, 9000, 2, 4), "", "must have a VM that arrives within the span"),
        (LINE.format(1, 0, 60, 2, 4), "firsts = 1\n", "firsts: unknown key; did you mean 'first'?"),
    ],
)
def test_errors_of_traces_name_the_line(
    tmp_path: Path, lines: str, more: str, message: str
) -> None:
    """Also if the lines are fine and a VM fits nowhere."""
    (tmp_path / "vms.csv").write_text(lines)
    with pytest.raises(ScenarioError) as caught:
        read(f'{HEAD}{HOSTS}[[workload]]\ntrace = "vms.csv"\n{more}', tmp_path)
    assert message in str(caught.value)


def test_a_trace_is_read_beside_the_file(tmp_path: Path) -> None:
    """VMs that fit nowhere may be rejected by choice; `first` reads some lines only."""
    (tmp_path / "vms.csv").write_text("".join(LINE.format(at, at, 600, 9, 4) for at in range(5)))
    text = f'{HEAD}{HOSTS}[[workload]]\ntrace = "vms.csv"\nfirst = 3\ntoo_large = "reject"\n'
    scenario = read(text, tmp_path)
    assert len(requests_of(scenario.points[0].draws, 0)) == 3
    assert scenario.traces == (tmp_path / "vms.csv",)
    with pytest.raises(ScenarioError, match="no such file in the folder"):
        read(text, tmp_path / "elsewhere")


@pytest.mark.parametrize(
    ("need", "more", "says"),
    [
        (
            Need.DOMAINS,
            "[domains]\npower = 2\n",
            "strategy pack needs domains: [domains] describes",
        ),
        (Need.TOPOLOGY, "[center]\ntree = [2, 4]\n", "strategy pack needs topology: center.tree"),
        (Need.HISTORY, "", "strategy pack needs history: center.history"),
    ],
)
def test_a_strategy_gets_what_it_needs_or_the_file_is_refused(
    monkeypatch: pytest.MonkeyPatch, need: Need, more: str, says: str
) -> None:
    """The message names the key that fills the need."""
    needy = replace(registry.STRATEGIES["pack"], needs=frozenset({need}))
    monkeypatch.setitem(registry.STRATEGIES, "pack", needy)
    center_scenario_of.cache_clear()
    lacking = "[center]\nhistory = 0\n" if need is Need.HISTORY else ""
    with pytest.raises(ScenarioError) as caught:
        read(f"{SMALL}{lacking}")
    assert says in str(caught.value)
    assert read(f"{SMALL}{more}").systems == ("first-fit", "pack")
    center_scenario_of.cache_clear()


@pytest.mark.parametrize("need", [Need.JOBS, Need.SERVICES, Need.REPLICATED])
def test_a_strategy_of_applications_is_refused(monkeypatch: pytest.MonkeyPatch, need: Need) -> None:
    """Scenario files declare none, so the tables would be empty."""
    needy = replace(registry.STRATEGIES["pack"], needs=frozenset({need}))
    monkeypatch.setitem(registry.STRATEGIES, "pack", needy)
    center_scenario_of.cache_clear()
    with pytest.raises(ScenarioError, match=f"pack needs {need}: scenario files have none"):
        read(SMALL)
    center_scenario_of.cache_clear()


def test_a_workload_has_spare_vms_for_wishes() -> None:
    """They change no other request, and arrive only if a strategy wishes them."""
    plain = requests_of(read(SMALL).points[0].draws, 7)
    text = SMALL.replace("[[workload]]", "[[workload]]\nspare = 5")
    spare = requests_of(read(text).points[0].draws, 7)
    assert not plain.spare.any()
    assert spare.spare.sum() == 5
    assert np.array_equal(spare.size[~spare.spare], plain.size)
    assert np.array_equal(spare.arrival_s[~spare.spare], plain.arrival_s)
