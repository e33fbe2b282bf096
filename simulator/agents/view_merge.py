"""Merging of messages into views: the inner loop of newscast, as machine code.

A view is a row of entries, the newest first, each with a peer and the cycle in which that peer
announced itself. Free entries at the end of a row have NO_PEER.

Note [Merging views]
The receiver of a message keeps the newest entries of its view and of the message's content. Both
are sorted, so one pass over both finds the newest. The first entry of a peer that the pass meets is
this peer's newest, and later entries of the peer are skipped. The receiver itself counts as met.

For example, agent 4 with the view [(7, 9), (2, 5)] receives [(2, 8), (4, 6)], sent by agent 3 in
cycle 10. In the order of cycles these are 3 (10), 7 (9), 2 (8), 4 (the receiver), 2 (met). With
two entries the new view is [(3, 10), (7, 9)].

Equal cycles are frequent. If the view always won there, a ring would become random more slowly; if
lower numbers won, these agents would be in more views. So random bits decide. They depend on
receiver, sender and cycle only, not on the other messages.

Note [Time of a merge]
It must not grow with the number of agents. So the peers that were met are in a small hash table
that stays in the processor's cache; a place of the table is free if it was filled for another
message. And the rows of the next messages are read before they are needed (`read_ahead`): they are
anywhere in memory, and reads of which no result is needed yet overlap.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from merkatd.placement.base.compiled import compiled

Views = npt.NDArray[np.int32]
"""[agents, entries, 2]: PEER and CYCLE of each entry. A single view lacks the first dimension."""
AgentRows = npt.NDArray[np.int32]
PEER: Final = 0
CYCLE: Final = 1
NO_PEER: Final = -1
AHEAD: Final = 16
"""The messages whose rows are read ahead at once."""
LINE_ENTRIES: Final = 8
"""The entries in a line of the processor's cache."""
_MULTIPLIER: Final = 1_103_515_245
_INCREMENT: Final = 12_345
_MASK: Final = 0x7FFF_FFFF


@compiled
def count_known(views: Views) -> AgentRows:
    """Return how many peers each agent knows."""
    known = np.zeros(len(views), dtype=np.int32)
    for agent in range(len(views)):
        while known[agent] < views.shape[1] and views[agent, known[agent], PEER] >= 0:
            known[agent] += 1
    return known


@compiled
def merge_messages(
    views: Views,
    content: Views,
    rows: AgentRows,
    senders: AgentRows,
    receivers: AgentRows,
    sent: int,
    oldest: int,
    tie_seed: int,
    topology: AgentRows,
    near_entries: int,
) -> int:
    """Merge each message into the view of its receiver: see Note [Merging views].

    Entries from before the cycle `oldest` are dropped, except the newest of a view. `near_entries`
    entries are for the nearest peers in the topology (`keep_near`). The result has no meaning.
    """
    entries = views.shape[1]
    wanted = 2 * entries + 1 if near_entries > 0 else entries
    places = 4
    while places < 4 * entries + 4:
        places *= 2
    met = np.zeros(places, dtype=np.int32)
    met_for = np.full(places, -1, dtype=np.int64)
    union = np.empty((2 * entries + 1, 2), dtype=np.int32)
    taken = np.empty(2 * entries + 1, dtype=np.bool_)
    touched = 0
    for message in range(len(senders)):
        if message % AHEAD == 0:
            touched += read_ahead(views, receivers[message : message + AHEAD])
            touched += read_ahead(content, rows[message : message + AHEAD])
        receiver, sender = int(receivers[message]), int(senders[message])
        met[receiver & (places - 1)] = receiver
        met_for[receiver & (places - 1)] = message
        bits = ((receiver * 40_503 + sender * 30_011 + tie_seed) & _MASK) * _MULTIPLIER & _MASK
        union[0, PEER], union[0, CYCLE] = sender, sent
        view = views[receiver]
        kept = unite(
            view, content[rows[message]], wanted, oldest, bits, union, met, met_for, message
        )
        if near_entries > 0:
            kept = keep_near(union, kept, entries, near_entries, topology, receiver, taken)
        view[:kept] = union[:kept]
        for entry in range(kept, entries):
            view[entry, PEER] = NO_PEER
            view[entry, CYCLE] = 0
    return touched


@compiled
def read_ahead(table: Views, rows: AgentRows) -> int:
    """Read each line of these rows, and return a number that depends on all of them."""
    touched = 0
    for row in rows:
        for entry in range(0, table.shape[1], LINE_ENTRIES):
            touched += int(table[row, entry, PEER])
    return touched


@compiled
def unite(
    view: Views,
    content: Views,
    wanted: int,
    oldest: int,
    bits: int,
    union: Views,
    met: AgentRows,
    met_for: npt.NDArray[np.int64],
    message: int,
) -> int:
    """Write the newest entries of both to `union`, after the sender, and return their number."""
    places = len(met)
    kept, own, other = 0, 0, 0
    peer, cycle = int(union[0, PEER]), int(union[0, CYCLE])
    while True:
        place = peer & (places - 1)
        while met_for[place] == message and met[place] != peer:
            place = (place + 1) & (places - 1)
        if met_for[place] != message:
            met[place], met_for[place] = peer, message
            union[kept, PEER], union[kept, CYCLE] = peer, cycle
            kept += 1
        if kept == wanted:
            return kept
        own_left = own < len(view) and view[own, PEER] >= 0
        other_left = other < len(content) and content[other, PEER] >= 0
        if own_left and other_left:
            ahead = int(view[own, CYCLE]) - int(content[other, CYCLE])
            if ahead == 0:
                bits = (bits * _MULTIPLIER + _INCREMENT) & _MASK
                ahead = (bits >> 20 & 1) * 2 - 1
            own_left = ahead > 0
        elif not own_left and not other_left:
            return kept
        if own_left:
            peer, cycle = int(view[own, PEER]), int(view[own, CYCLE])
            own += 1
        else:
            peer, cycle = int(content[other, PEER]), int(content[other, CYCLE])
            other += 1
        if cycle < oldest and kept > 0:
            return kept


@compiled
def keep_near(
    union: Views,
    count: int,
    entries: int,
    near_entries: int,
    topology: AgentRows,
    receiver: int,
    taken: npt.NDArray[np.bool_],
) -> int:
    """Keep at most `entries` entries of a union, in their order, and return their number.

    First, `near_entries` are for the nearest peers that share a level of the topology with the
    receiver. The rest are for the newest of peers outside its narrowest level; otherwise near
    agents would know only each other. What then is free gets the newest of all.
    """
    if count <= entries:
        return count
    levels = topology.shape[1]
    taken[:count] = False
    free = entries
    for distance in range(levels):
        for entry in range(count):
            if free > entries - near_entries and not taken[entry]:
                taken[entry] = levels_apart(topology, receiver, union[entry, PEER]) == distance
                free -= int(taken[entry])
    for least in range(1, -1, -1):
        for entry in range(count):
            if free > 0 and not taken[entry]:
                taken[entry] = levels_apart(topology, receiver, union[entry, PEER]) >= least
                free -= int(taken[entry])
    kept = 0
    for entry in range(count):
        if taken[entry]:
            union[kept] = union[entry]
            kept += 1
    return kept


@compiled
def levels_apart(topology: AgentRows, first: int, second: int) -> int:
    """Return how many levels two agents do not share: 0 if they share the narrowest."""
    levels = int(topology.shape[1])
    for level in range(levels):
        if topology[first, level] != topology[second, level]:
            return levels - level
    return 0
