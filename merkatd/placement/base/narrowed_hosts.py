"""Host restrictions of single VMs, as additional requirement classes."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from merkatd.cluster import Bools, Floats, Requirements, Snapshot
from merkatd.cluster.columns import NO_HOST


def narrowed_to(snapshot: Snapshot, hosts: Mapping[int, Bools], label: str) -> Snapshot:
    """Return the cloud with VMs restricted to these hosts.

    `hosts` maps the row of a VM to [hosts]. The VM's other requirements stay in force. The first
    new class is named `label`; further ones get a number too.
    """
    if not hosts:
        return snapshot
    names = list(snapshot.requirements.name)
    allowed: list[Bools] = list(snapshot.requirements.allowed)
    nowhere_better = np.zeros(len(snapshot.hosts))
    ranked = snapshot.requirements.rank.shape[1] > 0
    rank: list[Floats] = list(snapshot.requirements.rank)
    requirement = snapshot.vms.requirement.copy()
    known: dict[tuple[int, bytes], int] = {}
    as_bytes = {
        id(given): given.tobytes() for given in {id(of): of for of in hosts.values()}.values()
    }
    for row, given in hosts.items():
        before = int(requirement[row])
        key = (before, as_bytes[id(given)])
        if key not in known:
            known[key] = len(allowed)
            names.append(label if len(known) == 1 else f"{label} {len(known)}")
            allowed.append(given if before == NO_HOST else given & allowed[before])
            if ranked:
                rank.append(nowhere_better if before == NO_HOST else rank[before])
        requirement[row] = known[key]
    shape = (len(names), len(snapshot.hosts))
    # Without ranks the strategies place VMs by machine code.
    ranks = np.array(rank, dtype=np.float64).reshape(shape) if ranked else np.zeros((len(names), 0))
    return replace(
        snapshot,
        vms=replace(snapshot.vms, requirement=requirement),
        requirements=Requirements(
            name=tuple(names),
            allowed=np.array(allowed, dtype=bool).reshape(shape),
            rank=ranks,
        ),
    )
