"""Datastore constraints: the system datastore of a VM on each host, and space for its images."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from merkatd.cluster import Bools, Ints
from merkatd.opennebula.constraints.access_rules import DATASTORE
from merkatd.opennebula.constraints.candidates import Candidates, Constraint, VmClass
from merkatd.opennebula.constraints.host_requirements import listed, requirement_constraint, size
from merkatd.opennebula.pools.constraint_facts import DatastoreFacts, HostFacts
from merkatd.opennebula.requirements import OF_ONED, OF_USERS, ranked

LET_ONED_CHOOSE = -1


@dataclass(frozen=True, slots=True, eq=False)
class UsableDatastores:
    """The system datastores of the VMs of a class."""

    constraint: Constraint
    datastore: Ints
    """[hosts]: the id of the VM's system datastore on each host."""


def fits(wanted_mib: float, free_mib: float) -> bool:
    """Return whether a size fits, by OpenNebula's rule: 0 always fits, else space must remain."""
    return wanted_mib == 0 or wanted_mib < free_mib


def free_on(facts: HostFacts, datastore: int) -> float:
    """Return the free space of a non-shared datastore on a host, in MiB."""
    return facts.datastore_mib.get(datastore, facts.disk_mib)


def image_constraint(scene: Candidates, sort: VmClass) -> Constraint | None:
    """Return the constraint of images that are cloned in their datastore, None if they fit."""
    if sort.stay is not None:
        return None
    for datastore, wanted_mib in sort.wants.image_mib:
        image_store = scene.images.get(datastore)
        if image_store is not None and fits(wanted_mib, image_store.free_mib):
            continue
        why = f"image datastore {datastore} does not exist or is not visible"
        if image_store is not None:
            why = (
                f"image datastore {image_store.name}: {size(image_store.free_mib)} free,"
                f" {size(wanted_mib)} needed"
            )
        return Constraint(np.zeros(len(scene), dtype=bool), _always(why))
    return None


def system_constraint(scene: Candidates, sort: VmClass) -> UsableDatastores | None:
    """Return the best system datastore on each host, None if no datastore is known."""
    if not scene.estate.datastores:
        return None
    if sort.stay is not None and sort.stay.running:
        return _where_it_is(scene, sort, sort.stay.datastore)
    may = scene.may(sort.user, DATASTORE)
    left = np.ones(len(scene.datastores), dtype=bool)
    reason = "no system datastore is ready"
    for rows, why in _filters(scene, sort, may):
        if not left.any():
            break
        left, before = left & rows, left
        if not left.any():
            reason = why(before)
    chosen = np.full(len(scene), LET_ONED_CHOOSE)
    candidates = [scene.datastores[row] for row in _by_rank(scene, sort, left)]
    for store in candidates:
        free = _reach(scene, store) & _room_on_hosts(scene, sort, store)
        chosen[free & (chosen == LET_ONED_CHOOSE)] = store.id
    usable = chosen != LET_ONED_CHOOSE
    if candidates:
        return UsableDatastores(Constraint(usable, _out_of_reach(scene, sort, candidates)), chosen)
    return UsableDatastores(Constraint(usable, _always(reason)), chosen)


def _filters(
    scene: Candidates, sort: VmClass, may: Bools
) -> list[tuple[Bools, Callable[[Bools], str]]]:
    """Return the filters of system datastores that don't depend on the host, in order."""
    stores, wants = scene.datastores, sort.wants
    filters = [(may, _forbidden(scene, sort))]
    for name, text, limits in (
        ("AUTOMATIC_DS_REQUIREMENTS", wants.automatic_ds, OF_ONED),
        ("SCHED_DS_REQUIREMENTS", wants.requirements_ds, OF_USERS),
    ):
        if text:
            asked = requirement_constraint(
                name, text, scene.datastore_table, "system datastore", limits
            )
            filters.append((asked.hosts, asked.why))
    if sort.stay is None:
        room = [
            not store.shared or (_seen(store) and fits(wants.system_mib, store.free_mib))
            for store in stores
        ]
        filters.append((np.array(room, dtype=bool), _full(scene, sort)))
    return filters


def _seen(datastore: DatastoreFacts) -> bool:
    """Return whether the datastore was monitored: before that, its total and free space are 0."""
    return datastore.total_mib > 0 or datastore.free_mib > 0


def _by_rank(scene: Candidates, sort: VmClass, left: Bools) -> list[int]:
    """Return the datastores by rank, then by free space, as OpenNebula does by default."""
    rank = ranked(sort.wants.rank_ds, scene.datastore_table).worth
    rows = np.flatnonzero(left).tolist()
    return sorted(rows, key=lambda row: (-rank[row], -scene.datastores[row].free_mib, row))


def _reach(scene: Candidates, datastore: DatastoreFacts) -> Bools:
    return scene.reach(datastore.clusters)


def _room_on_hosts(scene: Candidates, sort: VmClass, datastore: DatastoreFacts) -> Bools:
    if datastore.shared or sort.wants.system_mib == 0:
        return np.ones(len(scene), dtype=bool)
    room = [fits(sort.wants.system_mib, free_on(facts, datastore.id)) for facts in scene.facts]
    return np.array(room, dtype=bool)


def _where_it_is(scene: Candidates, sort: VmClass, datastore: int) -> UsableDatastores | None:
    """Return the datastore of a running VM, which keeps it when it moves; None if unknown."""
    store = next((store for store in scene.datastores if store.id == datastore), None)
    if store is None:
        return None
    hosts = _reach(scene, store) & _room_on_hosts(scene, sort, store)
    chosen = np.where(hosts, store.id, LET_ONED_CHOOSE)
    return UsableDatastores(Constraint(hosts, _out_of_reach(scene, sort, [store])), chosen)


def _always(why: str) -> Callable[[Bools], str]:
    return lambda _left: why


def _forbidden(scene: Candidates, sort: VmClass) -> Callable[[Bools], str]:
    def why(left: Bools) -> str:
        names = [scene.datastores[row].name for row in np.flatnonzero(left).tolist()]
        return f"user {{user}} may not use system datastore {listed(names)} (needs USE)"

    return why if sort.user is not None else _always("")


def _full(scene: Candidates, sort: VmClass) -> Callable[[Bools], str]:
    def why(left: Bools) -> str:
        rows = np.flatnonzero(left).tolist()
        best = max((scene.datastores[row] for row in rows), key=lambda store: store.free_mib)
        if not _seen(best):
            return f"system datastore {best.name} is not monitored"
        return (
            f"system datastore {best.name}: {size(best.free_mib)} free,"
            f" {size(sort.wants.system_mib)} needed"
        )

    return why


def _out_of_reach(
    scene: Candidates, sort: VmClass, stores: list[DatastoreFacts]
) -> Callable[[Bools], str]:
    def why(left: Bools) -> str:
        reached = [store for store in stores if (_reach(scene, store) & left).any()]
        names = listed([store.name for store in stores])
        if not reached:
            count = int(np.count_nonzero(left))
            hosts = "the host" if count == 1 else f"any of the {count} hosts"
            return f"system datastore {names} is not in the cluster of {hosts} it could be on"
        free = max(
            (free_on(scene.facts[row], store.id), store.name)
            for store in reached
            for row in np.flatnonzero(left & _reach(scene, store)).tolist()
        )
        return (
            f"system datastore {free[1]}: at most {size(free[0])} free on a host,"
            f" {size(sort.wants.system_mib)} needed"
        )

    return why
