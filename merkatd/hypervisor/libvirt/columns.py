"""Rows of all hosts to the columns that the period reads."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from merkatd.hypervisor.libvirt.reading import Row
from merkatd.limits import InForce
from merkatd.scheduler.base.ports import Use


def use_of(rows: Sequence[Row], pinned_by_others: AbstractSet[int], away: Mapping[int, str]) -> Use:
    """`pinned_by_others`: VMs that OpenNebula pins."""
    rows = sorted(rows)
    used_mib = np.array([row.used_mib for row in rows], dtype=np.float64)
    return Use(
        vm_id=_whole([row.vm for row in rows]),
        cpu_s=np.array([row.cpu_s for row in rows], dtype=np.float64),
        held_mib=np.array([row.held_mib for row in rows], dtype=np.float64),
        used_mib=used_mib,
        in_force=InForce(
            vcpu_quota_us=_whole([row.cpu.vcpu_quota_us for row in rows]),
            global_quota_us=_whole([row.cpu.global_quota_us for row in rows]),
            shares=_whole([row.cpu.shares for row in rows]),
            memory_mib=_whole([row.memory_mib for row in rows]),
            used_mib=used_mib,
            balloon=np.array([row.balloon for row in rows], dtype=bool),
            pin_policy=np.array([row.vm in pinned_by_others for row in rows], dtype=bool),
            pins={row.vm: row.cores for row in rows if any(row.cores)},
            emulators_off=frozenset(row.vm for row in rows if row.emulator_off),
            further={
                "network": _whole([row.allowed.network_kb_s for row in rows]),
                "disk": _whole([row.allowed.disk_kib_s for row in rows]),
            },
        ),
        away=away,
        run=_whole([row.run for row in rows]),
    )


def _whole(values: Sequence[int]) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return np.array(values, dtype=np.int64)
