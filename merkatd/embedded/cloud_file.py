"""A cloud built from a TOML description, or restored from its state file."""

from __future__ import annotations

import json
import re
import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from merkatd.base.clock import Clock
from merkatd.embedded.cloud import EmbeddedCloud
from merkatd.embedded.methods.cluster_calls import new_cluster, share_datastore
from merkatd.embedded.methods.user_calls import new_group, new_user
from merkatd.embedded.model import template_text
from merkatd.embedded.model.event_clock import ScaledClock
from merkatd.embedded.model.records import FIRST_CLUSTER
from merkatd.embedded.model.settings import HOST_START_S, EmbeddedSettings, HostSize
from merkatd.embedded.model.template_text import Template

if TYPE_CHECKING:
    from pathlib import Path

    from merkatd.embedded.state_file import SqliteStore


class CloudFileError(ValueError):
    """An invalid description; the message names the key and the accepted values."""


@dataclass(frozen=True, slots=True)
class HostGroup:
    """Hosts of the same size, cluster and template."""

    count: int = 1
    size: HostSize = field(default_factory=HostSize)
    cluster: str = FIRST_CLUSTER
    prefix: str = "host"
    template: Template = field(default_factory=Template)


@dataclass(frozen=True, slots=True)
class DescribedUser:
    """The description of a user."""

    name: str
    password: str
    groups: tuple[str, ...] = ("users",)
    template: Template = field(default_factory=Template)


@dataclass(frozen=True, slots=True)
class CloudDescription:
    """The description of a cloud."""

    clusters: tuple[str, ...] = ()
    hosts: tuple[HostGroup, ...] = ()
    groups: tuple[tuple[str, Template], ...] = ()
    users: tuple[DescribedUser, ...] = ()


def read(path: Path) -> CloudDescription:
    """Read a description from a file. Raise CloudFileError if it is invalid."""
    try:
        with path.open("rb") as file:
            document = tomllib.load(file)
    except tomllib.TOMLDecodeError as error:
        raise CloudFileError(f"{path}: {error}") from None
    _known(document, {"clusters", "hosts", "groups", "users"}, str(path))
    return CloudDescription(
        clusters=tuple(_text(row, "name", "clusters") for row in _rows(document, "clusters")),
        hosts=tuple(_host_group(row) for row in _rows(document, "hosts")),
        groups=tuple(
            (_text(row, "name", "groups"), _template(row, "groups"))
            for row in _rows(document, "groups")
        ),
        users=tuple(_login(row) for row in _rows(document, "users")),
    )


def build(cloud: EmbeddedCloud, plan: CloudDescription) -> None:
    """Add the described objects to a new cloud; all clusters share its datastores."""
    for name in plan.clusters:
        cluster = new_cluster(cloud.world, name)
        for store in cloud.world.datastores:
            share_datastore(cloud.world, cluster, store)
    for name, attributes in plan.groups:
        new_group(cloud.world, name).template = attributes
    for login in plan.users:
        groups = [_named(cloud, "groups", name) for name in login.groups]
        new_user(cloud.world, login.name, login.password, groups).template = login.template
    for hosts in plan.hosts:
        home = _named(cloud, "clusters", hosts.cluster)
        for host in cloud.add_hosts(hosts.count, hosts.size, home, hosts.prefix):
            host.template = host.template.plus(hosts.template.attributes)
            cloud.world.changed("host", host.id)


def _named(cloud: EmbeddedCloud, what: str, name: str) -> int:
    table = cloud.world.groups if what == "groups" else cloud.world.clusters
    row = table.named(name)
    if row is None:
        names = ", ".join(str(row.name) for row in table)
        raise CloudFileError(f"unknown name {name!r} in {what}; known names: {names}")
    return int(row.id)


def memory_mib(text: str) -> int:
    """Return MiB from "4096", "64GiB" or "512MiB"."""
    match = re.fullmatch(r"([0-9]+)\s*(MiB|GiB|TiB|)", text.strip())
    if match is None or int(match.group(1)) == 0:
        raise CloudFileError(f'memory must be a size such as "64GiB" or "512MiB" (got {text!r})')
    return int(match.group(1)) * {"": 1, "MiB": 1, "GiB": 1024, "TiB": 1024**2}[match.group(2)]


def _rows(document: dict[str, Any], name: str) -> list[dict[str, Any]]:
    rows = document.get(name, [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise CloudFileError(f"{name} must be an array of tables, [[{name}]]")
    return rows


def _known(row: dict[str, Any], names: set[str], where: str) -> None:
    for name in row:
        if name not in names:
            raise CloudFileError(
                f"{where}: unknown key {name!r}; known keys: {', '.join(sorted(names))}"
            )


def _text(row: dict[str, Any], name: str, where: str, default: str | None = None) -> str:
    value = row.get(name, default)
    if not isinstance(value, str) or not value:
        raise CloudFileError(f"{where}: {name} must be a non-empty string (got {value!r})")
    return value


def _template(row: dict[str, Any], where: str) -> Template:
    try:
        return template_text.parse(row.get("template", ""))
    except (template_text.ParseError, TypeError) as error:
        raise CloudFileError(f"{where}: template: {error}") from None


def _host_group(row: dict[str, Any]) -> HostGroup:
    _known(row, {"count", "cpu", "memory", "cluster", "prefix", "template"}, "hosts")
    count, cores = row.get("count", 1), row.get("cpu", 8)
    if type(count) is not int or count < 1:
        raise CloudFileError(f"hosts: count must be a whole number of at least 1 (got {count!r})")
    if type(cores) is not int or cores < 1:
        raise CloudFileError(
            f"hosts: cpu must be a whole number of cores, at least 1 (got {cores!r})"
        )
    size = HostSize(cores * 100, memory_mib(str(row.get("memory", "16GiB"))))
    cluster = _text(row, "cluster", "hosts", FIRST_CLUSTER)
    prefix = _text(row, "prefix", "hosts", "host")
    return HostGroup(count, size, cluster, prefix, _template(row, "hosts"))


def _login(row: dict[str, Any]) -> DescribedUser:
    _known(row, {"name", "password", "groups", "template"}, "users")
    groups = row.get("groups", ["users"])
    if not isinstance(groups, list) or not groups or not all(type(g) is str for g in groups):
        raise CloudFileError(f"users: groups must be a non-empty list of names (got {groups!r})")
    return DescribedUser(
        _text(row, "name", "users"),
        _text(row, "password", "users"),
        tuple(groups),
        _template(row, "users"),
    )


_EVENTS_PER_TURN = 100


def open_cloud(
    clock: Clock,
    plan: CloudDescription,
    password: str,
    seed: int,
    store: SqliteStore | None,
    *,
    host_start_s: float = HOST_START_S,
) -> EmbeddedCloud:
    """Restore the cloud in the store, or build a new cloud that the store follows."""
    settings = EmbeddedSettings(events_per_turn=_EVENTS_PER_TURN, host_start_s=host_start_s)
    cloud = EmbeddedCloud(clock, np.random.default_rng(_seed(seed, store)), settings)
    if store is not None and not store.empty:
        store.restore(cloud)
        return cloud
    if store is not None:
        store.follow(cloud)
    cloud.found(password)
    build(cloud, plan)
    cloud.commit()
    return cloud


ClockMaker = Callable[[Clock, float, float], Clock]
"""Returns a world's clock from the reactor, the world's speed and the world's time now."""


def clock_of(
    speed: float, store: SqliteStore | None, reactor: Clock, make: ClockMaker = ScaledClock
) -> Clock:
    """Return the world's clock: it ran on while the process was down, and never jumps back."""
    wall_s = world_s = time.time()
    if store is not None:
        old_wall_s, old_world_s, old_speed = json.loads(
            store.fact("clock", json.dumps([wall_s, world_s, speed]))
        )
        world_s = old_world_s + max(wall_s - old_wall_s, 0.0) * old_speed
        store.set_fact("clock", json.dumps([wall_s, world_s, speed]))
    return make(reactor, speed, world_s)


def _seed(seed: int, store: SqliteStore | None) -> list[int]:
    """Return a seed for this run of the process: a restored cloud must not repeat its draws."""
    if store is None:
        return [seed]
    life = int(store.fact("life", "0")) + 1
    store.set_fact("life", str(life))
    return [seed, life]
