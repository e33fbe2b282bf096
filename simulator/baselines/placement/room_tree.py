"""The first host with room for a VM, in machine code.

# Note [Tree of room]

The hosts are the leaves of a binary tree. Each node has the greatest free amounts of the hosts
below it, each resource by itself. A search skips every node whose greatest amounts do not suffice,
so it finds the first host in about as many steps as the tree has levels. With several resources a
node may seem to suffice although no single host below it does; then the search goes on behind it.

Example: of four hosts with 1, 3, 2 and 4 free, the two inner nodes have 3 and 4. A VM of 4 skips
the first inner node with both hosts, and then the host with 2.
"""

import numpy as np

from merkatd.cluster import Floats, Ints
from merkatd.cluster.columns import NO_HOST
from merkatd.placement.base.compiled import compiled

KNOWN_FAILURES = 32
"""The number of VMs without room that a search remembers: larger VMs have none either."""


def tree_of_room(room: Floats) -> Floats:
    """Return [nodes, resources]: the tree of hosts with this free room; the root is node 1."""
    leaves = 1 << max(len(room) - 1, 0).bit_length()
    tree = np.full((2 * leaves, room.shape[1]), -1.0)
    tree[leaves : leaves + len(room)] = room
    width = leaves // 2
    while width:
        below = tree[2 * width : 4 * width].reshape(width, 2, -1)
        tree[width : 2 * width] = below.max(axis=1)
        width //= 2
    return tree


@compiled
def suffices(tree: Floats, node: int, floor: Floats) -> bool:
    """Return whether no amount of a node is less than a VM needs."""
    for resource in range(len(floor)):  # noqa: SIM110 - numba compiles no generator
        if tree[node, resource] < floor[resource]:
            return False
    return True


@compiled
def first_with_room(tree: Floats, floor: Floats) -> int:
    """Return the first host with room, or NO_HOST."""
    leaves, node = len(tree) // 2, 1
    while True:
        if suffices(tree, node, floor):
            if node >= leaves:
                return node - leaves
            node *= 2
        else:
            while node % 2 == 1:
                node //= 2
                if node == 0:
                    return NO_HOST
            node += 1


@compiled
def climb(tree: Floats, host: int) -> None:
    """Correct the nodes above a host whose room has changed."""
    node = (len(tree) // 2 + host) // 2
    while node >= 1:
        same = True
        for resource in range(tree.shape[1]):
            most = max(tree[2 * node, resource], tree[2 * node + 1, resource])
            same = same and most == tree[node, resource]
            tree[node, resource] = most
        if same:
            return
        node //= 2


@compiled
def set_rooms(tree: Floats, hosts: Ints, room: Floats) -> None:
    """Change the free room of hosts."""
    for at in range(len(hosts)):
        for resource in range(tree.shape[1]):
            tree[len(tree) // 2 + hosts[at], resource] = room[at, resource]
        climb(tree, hosts[at])


@compiled
def is_known_failure(failures: Floats, count: int, floor: Floats) -> bool:
    """Return whether a VM that is nowhere larger had no room either."""
    for at in range(min(count, len(failures))):
        larger = True
        for resource in range(len(floor)):
            larger = larger and floor[resource] >= failures[at, resource]
        if larger:
            return True
    return False


@compiled
def place_first(tree: Floats, floors: Floats, order: Ints, failures: Floats) -> Ints:
    """Place VMs in this order, each on the first host with room; return their hosts or NO_HOST.

    `failures` is working memory for the sizes of VMs without room.
    """
    hosts = np.full(len(floors), NO_HOST)
    failed, leaves = 0, len(tree) // 2
    for vm in order:
        if is_known_failure(failures, failed, floors[vm]):
            continue
        host = first_with_room(tree, floors[vm])
        if host == NO_HOST:
            failures[failed % len(failures)] = floors[vm]
            failed += 1
            continue
        for resource in range(tree.shape[1]):
            tree[leaves + host, resource] -= floors[vm, resource]
        climb(tree, host)
        hosts[vm] = host
    return hosts
