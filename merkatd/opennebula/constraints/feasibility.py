"""Feasible hosts of each VM, computed once for each class of VMs with equal properties."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from merkatd.cluster import Bools, Floats, Ints
from merkatd.cluster.columns import is_one_of
from merkatd.opennebula.constraints.access_rules import HOST
from merkatd.opennebula.constraints.candidates import (
    AskingVm,
    Candidates,
    Constraint,
    OfferingHost,
    Tables,
    VmClass,
    VmGroupRoles,
    groups_of,
)
from merkatd.opennebula.constraints.capacity_needs import Needs
from merkatd.opennebula.constraints.datastores import (
    LET_ONED_CHOOSE,
    image_constraint,
    system_constraint,
)
from merkatd.opennebula.constraints.free_capacity import FreeCapacity
from merkatd.opennebula.constraints.gang_stock import GangStock
from merkatd.opennebula.constraints.hardware import assigned_devices, device_text
from merkatd.opennebula.constraints.host_requirements import (
    hosts_have,
    listed,
    rank_error,
    requirement_constraint,
)
from merkatd.opennebula.constraints.networks import Chosen, Networks
from merkatd.opennebula.constraints.text_allowances import Allowances, without_texts
from merkatd.opennebula.pools.constraint_facts import SiteFacts, VmRequirements
from merkatd.opennebula.requirements import OF_ONED, OF_USERS, ranked
from merkatd.scheduler.base.ports import Constraints

_ANY = -1
USER = "{user}"
"""The placeholder for the name of the VM's owner in a reason."""


@dataclass(frozen=True, slots=True, eq=False)
class Feasibility:
    """The feasible hosts of all VMs; rows of VMs and hosts are those of the arguments."""

    constraints: Constraints
    """The constraints in the form that the period uses."""
    sort: Ints
    """[vms]: the row of each VM's class."""
    datastore: Ints
    """[classes, hosts]: the id of the system datastore to deploy to, or LET_ONED_CHOOSE."""
    networks: Sequence[Mapping[int, Chosen]]
    """[classes], by cluster: the network for each automatic NIC."""
    host_cluster: Ints
    tables: Tables
    """The tables to reuse in the next period."""

    def datastore_of(self, vm: int, host: int) -> int:
        """Return the id of the system datastore of a VM on a host, both given by row."""
        return int(self.datastore[self.sort[vm], host])

    def networks_of(self, vm: int, host: int) -> Chosen:
        """Return the networks of a VM's automatic NICs on a host, both given by row."""
        return self.networks[int(self.sort[vm])].get(int(self.host_cluster[host]), ())


@dataclass(slots=True)
class _Opinion:
    """The result for a class of VMs."""

    allowed: Bools
    why: str = ""
    """The reason why no host is left; empty if one is."""
    rank: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    remark: str = ""
    datastore: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    networks: Mapping[int, Chosen] = field(default_factory=dict)


def judge_feasibility(
    vms: Sequence[AskingVm],
    hosts: Sequence[OfferingHost],
    estate: SiteFacts,
    before: Tables | None = None,
) -> Feasibility:
    """Find the feasible hosts of all VMs by all constraints of OpenNebula but CPU and memory.

    `before` are the tables of the previous period: results that have not changed are reused.
    """
    scene = Candidates(hosts, estate, before)
    used = {vm.member.group for vm in vms if vm.member is not None}
    groups = groups_of(estate.groups, used)
    sort, sorts, roles = _sorted_out(vms, scene, groups)
    nets = Networks(scene)
    opinions = [_opinion(scene, nets, vm_class) for vm_class in sorts]
    datastore = np.array([opinion.datastore for opinion in opinions], dtype=np.int64)
    networks = [opinion.networks for opinion in opinions]
    needs = Needs(
        scene,
        dict(zip((vm.id for vm in vms), sort.tolist(), strict=True)),
        {int(host): row for row, host in enumerate(scene.host_id)},
        sorts,
        [opinion.datastore.tolist() for opinion in opinions],
        networks,
        [opinion.allowed for opinion in opinions],
    )
    return Feasibility(
        constraints=_constraints(vms, scene, groups, roles, sort, sorts, opinions, needs),
        sort=sort,
        datastore=datastore.reshape(len(sorts), len(scene)),
        networks=networks,
        host_cluster=scene.cluster,
        tables=scene.tables,
    )


def _sorted_out(
    vms: Sequence[AskingVm], scene: Candidates, groups: VmGroupRoles
) -> tuple[Ints, list[VmClass], Ints]:
    """Return the class of each VM, the classes, and the role of each VM."""
    known: dict[object, int] = {}
    sorts: list[VmClass] = []
    # Equal requirements are usually the same object: comparing its identity is far cheaper.
    at_a_glance: dict[object, int] = {}
    allowances = Allowances(len(scene))
    roles = [_ANY if vm.member is None else groups.row(vm.member) for vm in vms]
    sort_of_vm: list[int] = []
    for vm, role in zip(vms, roles, strict=True):
        glance = id(vm.wants), vm.owner, vm.group, vm.stay, role
        sort = at_a_glance.get(glance)
        if sort is None:
            covered = allowances.covers(vm.owner, vm.wants)
            vm_class, likeness = _sort(vm, role, scene, groups, "" if covered else allowances.why())
            key = (
                vm_class.wants,
                vm_class.stay,
                likeness,
                vm_class.hosts_only,
                vm_class.hosts_never,
                vm_class.beyond,
            )
            sort = at_a_glance[glance] = known.setdefault(key, len(sorts))
            if sort == len(sorts):
                sorts.append(vm_class)
        sort_of_vm.append(sort)
    return np.array(sort_of_vm, dtype=np.int64), sorts, np.array(roles, dtype=np.int64)


def _sort(
    vm: AskingVm, role: int, scene: Candidates, groups: VmGroupRoles, beyond: str
) -> tuple[VmClass, object]:
    """Return the VM's class, and the key of its owner's rights."""
    wants = without_texts(vm.wants) if beyond else vm.wants
    user = scene.rights.subject(vm.owner, vm.group)
    likeness = None if user is None else scene.rights.likeness(user)
    return VmClass(wants, vm.stay, user, *_host_rules(groups, role), beyond), likeness


def _host_rules(groups: VmGroupRoles, role: int) -> tuple[frozenset[int] | None, frozenset[int]]:
    if role == _ANY:
        return None, frozenset()
    rules = groups.roles[role]
    return rules.host_affined or None, rules.host_anti_affined


def _opinion(scene: Candidates, nets: Networks, sort: VmClass) -> _Opinion:
    """Apply each constraint in turn, until no host is left."""
    opinion = _Opinion(np.ones(len(scene), dtype=bool))
    opinion.datastore = np.full(len(scene), LET_ONED_CHOOSE)
    opinion.rank = ranked(sort.wants.rank, scene.host_table).worth
    opinion.remark = _remark(scene, sort.wants)
    for constraint in _constraints_of(scene, nets, sort, opinion):
        left = opinion.allowed & constraint.hosts
        if not left.any() and not opinion.why and opinion.allowed.any():
            opinion.why = constraint.why(opinion.allowed)
        opinion.allowed = left
        if opinion.why:
            break
    return opinion


def _constraints_of(
    scene: Candidates, nets: Networks, sort: VmClass, opinion: _Opinion
) -> Iterator[Constraint]:
    """Yield the constraints in the order of their reasons; store choices in `opinion`."""
    wants = sort.wants
    if sort.beyond:
        yield Constraint(np.zeros(len(scene), dtype=bool), lambda _left: sort.beyond)
    if sort.user is not None:
        yield Constraint(scene.may(sort.user, HOST), partial(_forbidden, scene))
    for name, text, limits in (
        ("AUTOMATIC_REQUIREMENTS", wants.automatic, OF_ONED),
        ("SCHED_REQUIREMENTS", wants.requirements, OF_USERS),
    ):
        # Don't join the texts: a stray closing bracket in the second could disable the first.
        if text:
            yield requirement_constraint(name, text, scene.host_table, "host", limits)
    if sort.hosts_only is not None or sort.hosts_never:
        yield Constraint(_of_role(scene, sort), _role_forbids)
    image = image_constraint(scene, sort)
    if image is not None:
        yield image
    stored = system_constraint(scene, sort)
    if stored is not None:
        opinion.datastore = stored.datastore
        yield stored.constraint
    connected = nets.connected(sort)
    if connected is not None:
        opinion.networks = connected.by_cluster
        yield connected.constraint
    yield from _of_hardware(scene, sort)


def _of_hardware(scene: Candidates, sort: VmClass) -> Iterator[Constraint]:
    wants = sort.wants
    if wants.pcis:
        free = [assigned_devices(wants.pcis, facts.pcis) is not None for facts in scene.facts]
        asked = "; ".join(device_text(want) for want in wants.pcis[:3])
        yield Constraint(
            np.array(free, dtype=bool),
            lambda left: f"{_none_of(left)} a free PCI device for {asked}",
        )
    if wants.numa is not None:
        room = scene.rooms.fit(wants.numa)
        policy = wants.numa.policy
        yield Constraint(
            np.array(room, dtype=bool),
            lambda left: (
                f"{_none_of(left)} NUMA nodes with the free cores, memory and huge pages that the"
                f" VM needs (PIN_POLICY {policy})"
            ),
        )


def _forbidden(scene: Candidates, left: Bools) -> str:
    names = [scene.host_name[row] for row in np.flatnonzero(left).tolist()]
    if len(names) == 1:
        return f"user {USER} may not use host {names[0]} (needs MANAGE)"
    return f"user {USER} may use none of {len(names)} hosts (needs MANAGE on {listed(names)})"


def _of_role(scene: Candidates, sort: VmClass) -> Bools:
    never = is_one_of(scene.host_id, sort.hosts_never)
    if sort.hosts_only is None:
        return ~never
    only: Bools = is_one_of(scene.host_id, sort.hosts_only) & ~never
    return only


def _role_forbids(left: Bools) -> str:
    return (
        f"{hosts_have(int(np.count_nonzero(left)), 'host')} what the VM needs, but its role's"
        " HOST_AFFINED and HOST_ANTI_AFFINED allow none of them"
    )


def _none_of(left: Bools) -> str:
    count = int(np.count_nonzero(left))
    return "the only host that may take it lacks" if count == 1 else f"none of {count} hosts has"


def _remark(scene: Candidates, wants: VmRequirements) -> str:
    ranks = [
        ("SCHED_RANK", wants.rank, scene.host_table),
        ("SCHED_DS_RANK", wants.rank_ds, scene.datastore_table),
    ]
    ranks += [
        (f"SCHED_RANK of NIC {nic.nic}", nic.rank, scene.network_table)
        for nic in wants.nics
        if nic.rank
    ]
    return "; ".join(filter(None, (rank_error(*rank) for rank in ranks)))


def _constraints(
    vms: Sequence[AskingVm],
    scene: Candidates,
    groups: VmGroupRoles,
    roles: Ints,
    sort: Ints,
    sorts: Sequence[VmClass],
    opinions: Sequence[_Opinion],
    needs: Needs,
) -> Constraints:
    """Return the results as the period's constraints; classes without any effect are left out."""
    matters = [
        row
        for row, opinion in enumerate(opinions)
        if not opinion.allowed.all() or opinion.rank.any()
    ]
    number = np.full(len(sorts), _ANY)
    number[matters] = np.arange(len(matters))
    shape = len(matters), len(scene)
    allowed: Bools = np.array([opinions[row].allowed for row in matters], dtype=bool)
    rank: Floats = np.array([opinions[row].rank for row in matters], dtype=np.float64)
    vm_class = number[sort] if len(vms) else np.zeros(0, dtype=np.int64)
    explained = [row for row, opinion in enumerate(opinions) if opinion.why or opinion.remark]
    telling = np.flatnonzero(is_one_of(sort, explained)).tolist()
    messages = {vms[row].id: (opinions[int(sort[row])], vms[row].owner) for row in telling}
    return Constraints(
        vm_class=vm_class,
        class_name=_names([sorts[row] for row in matters]),
        allowed=allowed.reshape(shape),
        rank=rank.reshape(shape),
        unplaceable={
            vm: opinion.why.replace(USER, _user(scene, owner))
            for vm, (opinion, owner) in messages.items()
            if opinion.why
        },
        remarks={vm: opinion.remark for vm, (opinion, _) in messages.items() if opinion.remark},
        vm_role=roles,
        role_name=groups.names,
        role_policy=groups.policy,
        role_pairs=groups.pairs,
        fixed=np.array([bool(vm.wants.pcis) or vm.wants.numa is not None for vm in vms], bool),
        stock=partial(FreeCapacity, needs, GangStock(needs)),
    )


def _user(scene: Candidates, owner: int) -> str:
    user = scene.estate.users.get(owner)
    return user.name if user is not None else str(owner)


def _names(sorts: Sequence[VmClass]) -> tuple[str, ...]:
    """Return a name for each class: its main requirement, numbered if several have the same."""
    seen: dict[str, int] = {}
    names = []
    for sort in sorts:
        wants = sort.wants
        text = wants.requirements or wants.rank or wants.automatic or "rights and resources"
        text = text if len(text) <= 60 else text[:57] + "..."
        seen[text] = seen.get(text, 0) + 1
        names.append(text if seen[text] == 1 else f"{text} #{seen[text]}")
    return tuple(names)
