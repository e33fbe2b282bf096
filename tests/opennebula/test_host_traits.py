"""The traits of hosts, from the templates of hosts and clusters to the observation."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.logger import capturedLogs

from merkatd.opennebula.host_traits import TraitWarnings, host_traits_of
from merkatd.opennebula.pools.constraint_facts import HostFacts
from merkatd.opennebula.pools.host_pool import HostRow
from merkatd.opennebula.rpc.errors import OneForbiddenError
from merkatd.scheduler.base.traits import HostTraits
from tests.lengths import shorten
from tests.opennebula.worlds import SMALL, World, in_memory

REPLACE, ADD = 0, 1


def describe(world: World, *templates: str) -> None:
    """Give hosts 0, 1, ... these templates."""
    for host, text in enumerate(templates):
        world.call("one.host.update", host, text or 'ARCH="x86_64"', REPLACE)


def traits(world: World) -> HostTraits:
    """Return the hosts' traits in a new observation."""
    seen = world.observe().host_traits
    assert seen is not None
    return seen


def test_hosts_without_attributes_have_the_defaults(world: World) -> None:
    """The cluster is the only level; domains and numbers are unknown, and nothing is wrong."""
    describe(world, "", "", 'MERKAT_LINK=""\nMERKAT_POWER_DOMAIN=" "')
    world.call("one.cluster.allocate", "far")
    world.call("one.cluster.addhost", 100, 2)
    seen = traits(world)
    assert seen.domains == {}
    assert seen.topology.tolist() == [[0], [0], [1]]
    for column in (seen.link_mbit_s, seen.idle_watts, seen.full_watts):
        assert np.isnan(column).tolist() == [True] * 3
    assert seen.problems == {}


def test_hosts_state_their_traits(world: World) -> None:
    """Names are separated by comma or space; equal names are equal numbers."""
    describe(
        world,
        'MERKAT_NETWORK_DOMAIN="s2 s1"\nMERKAT_POWER_DOMAIN="feed-a"\nMERKAT_LINK="25000"\n'
        'MERKAT_TOPOLOGY="dc1/cluster2/rack7"\nMERKAT_IDLE_WATTS="80.5"\nMERKAT_FULL_WATTS="300"',
        'MERKAT_NETWORK_DOMAIN="s1, s2"\nMERKAT_POWER_DOMAIN="feed-b,feed-a"\n'
        'MERKAT_TOPOLOGY="dc1/cluster2/rack8"',
        'MERKAT_POWER_DOMAIN="feed-b"\nMERKAT_TOPOLOGY=" dc1 / cluster3 / rack7 "',
    )
    seen = traits(world)
    assert seen.problems == {}
    assert seen.domains["network"].tolist() == [[1, 0], [0, 1], [-1, -1]]
    assert seen.domains["power"].tolist() == [[0, -1], [1, 0], [1, -1]]
    assert seen.topology.tolist() == [[0, 0, 0], [0, 0, 1], [0, 1, 2]]
    assert seen.link_mbit_s.tolist()[0] == 25_000
    assert (seen.idle_watts[0], seen.full_watts[0]) == (80.5, 300.0)
    assert np.isnan(seen.link_mbit_s[1:]).all()


def test_a_cluster_states_the_traits_of_its_hosts(world: World) -> None:
    """A host's own attribute takes precedence."""
    describe(world, 'MERKAT_IDLE_WATTS="50"', "", "")
    text = 'MERKAT_IDLE_WATTS="70"\nMERKAT_NETWORK_DOMAIN="s1"\nMERKAT_TOPOLOGY="dc/row"'
    world.call("one.cluster.update", 0, text, ADD)
    seen = traits(world)
    assert seen.idle_watts.tolist() == [50.0, 70.0, 70.0]
    assert seen.domains["network"].tolist() == [[0, -1]] * 3
    assert seen.topology.shape == (3, 2)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            'MERKAT_POWER_DOMAIN="a b c"',
            "MERKAT_POWER_DOMAIN must be one or two different names (got 'a b c')",
        ),
        (
            'MERKAT_NETWORK_DOMAIN="a,a"',
            "MERKAT_NETWORK_DOMAIN must be one or two different names (got 'a,a')",
        ),
        ('MERKAT_POWER_DOMAIN="alone"', "MERKAT_POWER_DOMAIN: no other host names 'alone'"),
        ('MERKAT_LINK="fast"', "MERKAT_LINK must be a number above 0 to 1e+15, in Mbit/s"),
        ('MERKAT_LINK="0"', "MERKAT_LINK must be a number above 0 to 1e+15, in Mbit/s"),
        ('MERKAT_NETWORK="1Gbit/s"', "MERKAT_NETWORK must be a number from 0 to 1e+15, in Mbit/s"),
        ('MERKAT_DISK="-1"', "MERKAT_DISK must be a number from 0 to 1e+15, in MiB/s"),
        ('MERKAT_IDLE_WATTS="-5"', "MERKAT_IDLE_WATTS must be a number from 0 to 1e+15, in W"),
        ('MERKAT_FULL_WATTS="nan"', "MERKAT_FULL_WATTS must be a number from 0 to 1e+15, in W"),
        (
            'MERKAT_IDLE_WATTS="90"\nMERKAT_FULL_WATTS="80"',
            "MERKAT_IDLE_WATTS must be at most MERKAT_FULL_WATTS = 80 (got 90)",
        ),
        (
            'MERKAT_TOPOLOGY="dc//rack"',
            "MERKAT_TOPOLOGY must be 1 to 8 names, separated by / (got 'dc//rack')",
        ),
        (
            'MERKAT_TOPOLOGY="a/b/c/d/e/f/g/h/i"',
            "MERKAT_TOPOLOGY must be 1 to 8 names, separated by / (got 'a/b/c/d/e/f/g/h/i')",
        ),
    ],
)
def test_a_mistake_is_reported_and_affects_nothing_else(text: str, problem: str) -> None:
    """The other attributes of the host and the other hosts count."""
    world = in_memory()
    describe(world, text, 'MERKAT_FULL_WATTS="200"', "")
    world.call("one.host.update", 0, 'MERKAT_EXTRA="1"', ADD)
    seen = traits(world)
    assert list(seen.problems) == [0]
    assert seen.problems[0][0].startswith(problem)
    assert seen.full_watts[1] == 200.0
    assert np.isnan([seen.link_mbit_s[0], seen.idle_watts[0], seen.full_watts[0]]).all()
    stated = seen.domains.get("power", np.full((3, 2), -1)).tolist()
    assert stated == ([[0, -1], [-1, -1], [-1, -1]] if "alone" in text else [[-1, -1]] * 3)
    assert seen.topology.tolist() == [[0], [0], [0]]


def test_the_only_host_of_a_cloud_shares_no_domain() -> None:
    """No other host could name it."""
    world = in_memory(hosts=1)
    describe(world, 'MERKAT_POWER_DOMAIN="feed"')
    assert traits(world).problems == {}


@pytest.mark.parametrize("hosts", range(1, 8))
def test_an_embedded_cloud_of_any_size_has_no_mistake(hosts: int) -> None:
    """It describes its hosts itself: some without a redundant feed, and each in a rack."""
    seen = traits(in_memory(hosts=hosts))
    assert seen.problems == {}
    assert len(seen.domains["network"]) == hosts
    assert (seen.domains["network"] >= 0).all()
    assert (seen.domains["power"][:, 1] < 0).sum() == hosts // 3
    assert (seen.topology[:, 2] == np.arange(hosts) // 4).all()


def test_missing_levels_are_one_place_without_a_name() -> None:
    """A host with fewer levels, or with its cluster alone, shares no lower level with others."""
    world = in_memory(hosts=5)
    describe(world, *[f'MERKAT_TOPOLOGY="{path}"' for path in ("dc/row/a", "dc/row", "dc/row")])
    world.call("one.host.update", 3, 'MERKAT_TOPOLOGY="dc"', REPLACE)
    world.call("one.host.update", 4, 'ARCH="x86_64"', REPLACE)
    seen = traits(world)
    assert seen.topology.tolist() == [[0, 1, 2], [0, 1, 1], [0, 1, 1], [0, 0, 0], [1, 2, 3]]
    assert seen.problems == {
        host: (f"MERKAT_TOPOLOGY must have 2 levels, as those of other hosts (got '{path}')",)
        for host, path in ((0, "dc/row/a"), (3, "dc"), (4, "default"))
    }


@pytest.mark.parametrize(("odd", "usual"), [("dc/row/a/b", "dc/row/a"), ("dc", "dc/row/a")])
def test_the_host_with_an_unusual_number_of_levels_is_the_wrong_one(odd: str, usual: str) -> None:
    """Not the hosts that agree with each other. Of as many of each, the deepest counts."""
    world = in_memory(hosts=3)
    describe(world, *[f'MERKAT_TOPOLOGY="{path}"' for path in (usual, odd, usual)])
    assert set(traits(world).problems) == {1}
    world.call("one.host.update", 2, 'ARCH="x86_64"', REPLACE)
    deeper = len(odd) > len(usual)
    assert set(traits(world).problems) == {0 if deeper else 1, 2}


def warnings(world: World) -> list[str]:
    """Return the warnings of an observation."""
    with capturedLogs() as events:
        world.observe()
    return [
        event["log_format"].format(**event)
        for event in events
        if "host attribute" in event["log_format"]
    ]


def test_a_mistake_is_logged_once_until_it_is_corrected() -> None:
    """A mistake that comes back is logged again."""
    world = in_memory()
    describe(world, 'MERKAT_LINK="fast"', 'MERKAT_LINK="fast"', "")
    line = (
        "Wrong host attribute on host000, host001: MERKAT_LINK must be a number above 0"
        " to 1e+15, in Mbit/s (got 'fast')"
    )
    assert warnings(world) == [line]
    assert warnings(world) == []
    describe(world, "", 'MERKAT_LINK="fast"', 'MERKAT_LINK="fast"')
    assert warnings(world) == [line.replace("host000, host001", "host002")]
    describe(world, 'MERKAT_LINK="fast"', 'MERKAT_LINK="10"', 'MERKAT_LINK="10"')
    assert warnings(world) == [line.replace("host000, host001", "host000")]


def test_each_mistake_of_a_host_is_logged_on_its_own() -> None:
    """Correcting one of them, or making another one, does not log the others again."""
    world = in_memory()
    link, idle = 'MERKAT_LINK="fast"', 'MERKAT_IDLE_WATTS="-1"'
    domain = 'MERKAT_POWER_DOMAIN="a a"'
    describe(world, f"{link}\n{idle}", "", "")
    told = warnings(world)
    assert [next(name for name in ("LINK", "IDLE") if name in line) for line in told] == [
        "IDLE",
        "LINK",
    ]
    describe(world, link, "", "")
    assert warnings(world) == []
    describe(world, f"{link}\n{domain}", link, "")
    new = warnings(world)
    assert len(new) == 2
    assert "host000: MERKAT_POWER_DOMAIN" in new[0]
    assert "host001: MERKAT_LINK" in new[1]


def test_many_mistakes_are_logged_in_few_lines() -> None:
    """Hosts with the same mistake share a line, and one observation logs few lines."""
    names = {host: f"n{host}" for host in range(100)}
    for problems, lines, last in (
        (dict.fromkeys(range(100), ("same",)), 1, "n0, n1, n2, n3, n4 and 95 more"),
        ({host: (f"mistake {host}",) for host in range(100)}, 21, "80 more wrong host attributes"),
    ):
        with capturedLogs() as events:
            TraitWarnings().log(problems, names)
        texts = [event["log_format"].format(**event) for event in events]
        assert len(texts) == lines
        assert last in texts[-1]


def test_tenants_cannot_describe_hosts(world: World) -> None:
    """OpenNebula lets only administrators change hosts and clusters; a VM's text has no effect."""
    describe(world, "", "", "")
    user = world.call("one.user.allocate", "ann", "secret", "core")
    tenant = world.login("ann:secret")
    assert user > 1
    for method in ("one.host.update", "one.cluster.update"):
        with pytest.raises(OneForbiddenError):
            world.run(tenant.call(method, 0, 'MERKAT_LINK="1"', ADD))
    words = 'MERKAT_LINK="1"\nMERKAT_TOPOLOGY="x/y"\nMERKAT_POWER_DOMAIN="p"\nMERKAT_IDLE_WATTS="1"'
    world.run(tenant.allocate(SMALL + words))
    seen = traits(world)
    assert np.isnan(seen.link_mbit_s).all()
    assert np.isnan(seen.idle_watts).all()
    assert (seen.topology.tolist(), seen.domains) == ([[0]] * 3, {})


def row(host: int, values: dict[str, str]) -> HostRow:
    """Return a host with these facts."""
    facts = HostFacts(host, 0, {name: [value] for name, value in values.items()})
    nothing: Any = ()
    return HostRow(host, f"n{host}", 0, 2, 100.0, 1.0, nothing, 0.0, 0.0, facts)


NAMES = st.sampled_from(["a", "b", "c", "dc"])
DOMAIN = st.lists(NAMES, max_size=3).map(" ".join) | st.text(max_size=5)
TOPOLOGY = st.lists(NAMES, max_size=3).map("/".join) | st.text(max_size=5)
NUMBER = st.floats().map(str) | st.integers().map(str) | st.text(max_size=5)
HOST = st.fixed_dictionaries(
    {},
    optional={
        "MERKAT_NETWORK_DOMAIN": DOMAIN,
        "MERKAT_POWER_DOMAIN": DOMAIN,
        "MERKAT_TOPOLOGY": TOPOLOGY,
        "MERKAT_LINK": NUMBER,
        "MERKAT_IDLE_WATTS": NUMBER,
        "MERKAT_FULL_WATTS": NUMBER,
    },
)


@settings(max_examples=shorten(300, 80), deadline=None)
@given(st.lists(HOST, max_size=6))
def test_any_texts_give_valid_columns(hosts: list[dict[str, str]]) -> None:
    """Numbers are valid or unknown, and places and domains are equal exactly for equal names."""
    seen = host_traits_of([row(at, values) for at, values in enumerate(hosts)], {0: "one"})
    for column in (seen.link_mbit_s, seen.idle_watts, seen.full_watts):
        assert (np.isnan(column) | ((column >= 0) & np.isfinite(column))).all()
    assert not (seen.idle_watts > seen.full_watts).any()
    assert len(seen.topology) == len(hosts)
    for level in range(1, seen.topology.shape[1]):
        parents = {
            (int(here), int(above)) for above, here in seen.topology[:, level - 1 : level + 1]
        }
        assert len(parents) == len({here for here, _ in parents}), "a place has one parent"
    for domains in seen.domains.values():
        assert (domains[:, 0] != domains[:, 1])[domains[:, 0] >= 0].all()
        assert (domains[domains[:, 0] < 0] == -1).all()
        assert (domains >= 0).any()
    for first, one in enumerate(hosts):
        for second, other in enumerate(hosts):
            same = one.get("MERKAT_TOPOLOGY", "") == other.get("MERKAT_TOPOLOGY", "")
            if same:
                assert (seen.topology[first] == seen.topology[second]).all()
