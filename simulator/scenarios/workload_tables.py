"""The tables [[workload]] of a scenario file: drawn requests, or those of a trace."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, reduce
from pathlib import Path
from typing import Any, Final

import numpy as np

from merkatd.base.toml_reader import TomlTable, duration, listed, number, one_of, text
from merkatd.cluster import Bools, Floats
from simulator.kernel.kernel_run import fits_somewhere
from simulator.model.simulated_cloud import CORE
from simulator.scenarios.scenario_values import MAX_COUNT, at_least_one, positive, some_time
from simulator.workloads.azure_vms import AzureTableError, read_azure_vms
from simulator.workloads.random_streams import StreamPurpose, stream_of
from simulator.workloads.request_draws import MixedWorkload, draw_requests
from simulator.workloads.vm_requests import VmRequests, joined
from simulator.workloads.vm_types import VM_TYPES, VmType, sizes_of

Draw = Callable[[int], VmRequests]
"""Function from a seed to requests."""
_REFUSE: Final = "refuse"
_REJECT: Final = "reject"
_ROUNDING: Final = 1e-5
_TYPES: Final = "paper-4"
_MOST_EXPONENT: Final = 20.0


def read_workloads(
    table: TomlTable, folder: Path, capacity: Floats, span_s: float
) -> tuple[tuple[Draw, ...], tuple[Path, ...]]:
    """Return a function for each workload, and the files of traces."""
    draws: list[Draw] = []
    files: list[Path] = []
    for at, entry in enumerate(table.tables("workload", MAX_COUNT)):
        if entry.has("trace"):
            trace, draw = _trace(entry, folder, capacity, span_s)
            files += [trace] if trace else []
        else:
            draw = _drawn(entry, at, capacity, span_s)
        draws.append(draw)
    if not draws:
        table.complain("[[workload]]: at least one table is required")
    return tuple(draws), tuple(files)


def requests_of(draws: tuple[Draw, ...], seed: int) -> VmRequests:
    """Return the requests of all workloads."""
    return reduce(joined, (draw(seed) for draw in draws))


def _drawn(table: TomlTable, at: int, capacity: Floats, span_s: float) -> Draw:
    """Return the function that draws a mixed workload."""
    own = tuple(_type(entry) for entry in table.tables("type", MAX_COUNT))
    if own and table.has("types"):
        table.wrong("types", "must not be given beside tables [[workload.type]]")
    types = own or VM_TYPES[table.take("types", one_of(*VM_TYPES), _TYPES)]
    workload = MixedWorkload(
        count=table.need("requests", at_least_one, 1),
        span_s=span_s,
        services_per_job=table.take("services_per_job", number, 0.4),
        types=types,
        exponent=table.take("exponent", _exponent, 2.0),
        least_s=table.take("least", some_time, 60.0),
        boot_s=table.take("boot", duration, 600.0),
        most_dirty_mib_s=table.take("dirty_mib_s", number, 0.0),
    )
    more = table.take("spare", at_least_one, 0)
    for vm_type, fits in zip(types, _fits(sizes_of(types), capacity), strict=True):
        if not fits:
            size = _size(np.array([vm_type.cpu, vm_type.memory_mib]))
            table.wrong(
                "type" if own else "types",
                f"VM type {vm_type.name} ({size}) fits on no host: {_largest(capacity)}",
            )
    table.end()

    def draw(seed: int) -> VmRequests:
        mine = seed
        if at:  # another workload draws other numbers
            own_seeds = stream_of(seed, StreamPurpose.ARRIVALS, f"workload {at}")
            mine = int(own_seeds.integers(2**31))
        requests = draw_requests(workload, mine)
        return joined(requests, _spare(workload, more, mine)) if more else requests

    return draw


def _spare(workload: MixedWorkload, count: int, seed: int) -> VmRequests:
    """Return VMs that arrive if a strategy wishes more VMs of this workload's application."""
    own_seeds = stream_of(seed, StreamPurpose.ARRIVALS, "spare VMs")
    requests = draw_requests(replace(workload, count=count), int(own_seeds.integers(2**31)))
    return replace(requests, spare=np.ones(count, dtype=bool))


def _exponent(value: Any) -> float:
    return number(value, _MOST_EXPONENT)


def _type(table: TomlTable) -> VmType:
    made = VmType(
        table.need("name", text, "vm"),
        "general",
        table.need("cores", positive, 1.0) * CORE,
        table.need("memory_mib", positive, 1.0),
    )
    table.end()
    return made


def _trace(
    table: TomlTable, folder: Path, capacity: Floats, span_s: float
) -> tuple[Path | None, Draw]:
    """Return the file of a trace, and the function that returns its requests."""
    file = folder / table.take("trace", text, "")
    first = table.take("first", at_least_one, 0)
    too_large = table.take("too_large", one_of(_REFUSE, _REJECT), _REFUSE)
    table.end()
    if not file.is_file():
        table.wrong("trace", "no such file in the folder of the scenario file")
        return None, _nothing
    try:
        requests = _trace_of(file, first, _stamp(file))
    except AzureTableError as error:
        table.wrong("trace", str(error))
        return file, _nothing
    if not (requests.arrival_s < span_s).any():
        table.wrong("trace", f"must have a VM that arrives within the span, {span_s:g} s")
    misfits = np.flatnonzero(~_fits(requests.size, capacity))
    if len(misfits) and too_large == _REFUSE:
        row = misfits[np.argmin(requests.names["line"][misfits])]
        table.wrong(
            "trace",
            f"{len(misfits)} of {len(requests)} VMs fit on no host, first that of line"
            f" {requests.names['line'][row]} ({_size(requests.size[row])}): {_largest(capacity)};"
            f' too_large = "{_REJECT}" counts them as rejected',
        )
    return file, lambda _seed: _trace_of(file, first, _stamp(file))


def _stamp(file: Path) -> tuple[int, int]:
    """Return what changes with the file: a worker of a cluster lives longer than a sweep."""
    status = file.stat()
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=4)
def _trace_of(file: Path, first: int, stamp: tuple[int, int]) -> VmRequests:  # noqa: ARG001
    return read_azure_vms(file, most=first or None)


def _nothing(_seed: int) -> VmRequests:
    return VmRequests(arrival_s=np.zeros(0), lifetime_s=np.zeros(0), size=np.zeros((0, 2)))


def _fits(sizes: Floats, capacity: Floats) -> Bools:
    return fits_somewhere(sizes - _ROUNDING, capacity)


def _largest(capacity: Floats) -> str:
    """Return what the largest hosts have, in words."""
    kinds = np.unique(capacity, axis=0)[::-1]
    return f"hosts have {listed([_size(kind) for kind in kinds[:3]])}"


def _size(amounts: Floats) -> str:
    return f"{amounts[0] / CORE:g} cores and {amounts[1]:g} MiB"
