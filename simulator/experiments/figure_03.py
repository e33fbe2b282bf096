"""Figure 3: allocations of five VMs, on the whole market as one node and on three nodes."""

from collections.abc import Sequence

import numpy as np

from merkatd.cluster.snapshot_json import loads
from merkatd.market.market_view import market_view
from simulator.experiments.experiment import (
    Experiment,
    ExperimentOptions,
    ExperimentReport,
    Grid,
    PaperStatement,
    Row,
    Rows,
    Task,
)

HOST = '{"id": %d, "name": "%d", "market": "m", "capacity": {"cpu": 100, "memory": 10240}}'
VM = (
    '{"id": %d, "host": "%d", "state": "running", "market": "m",'
    ' "bid": {"cpu": %g, "memory": 1}, "cap": {"cpu": 100, "memory": 2048}}'
)
CLOUD = (
    '{"merkat_snapshot": 1, "now_s": 0, "period": 0, "resources": ["cpu", "memory"],'
    ' "markets": [{"name": "m"}], "hosts": [%s], "vms": [%s]}'
)
BIDS = (12.0, 12.0, 12.0, 30.0, 30.0)
NODES = (0, 0, 0, 1, 2)
"""The node of each VM in the figure."""
PRINTED_FIRST = (37.5, 37.5, 37.5, 93.75, 93.75)
PRINTED = (33.3, 33.3, 33.3, 100.0, 100.0)


def tasks(options: ExperimentOptions) -> Sequence[Task]:  # noqa: ARG001 - nothing is drawn
    """Return the single task."""
    return [Task("paper", 1.0, 0)]


def measure(task: Task, options: ExperimentOptions) -> Row:  # noqa: ARG001 - there is one
    """Return the allocations with the market as one node, and on the nodes of the figure."""
    hosts = ",".join(HOST % (row, row) for row in range(3))
    vms = ",".join(VM % (row, NODES[row], bid) for row, bid in enumerate(BIDS))
    snapshot = loads(CLOUD % (hosts, vms))
    view = market_view(snapshot, 0)
    first, given = view.first(view.place >= 0), view.on_hosts(view.place)
    amounts: dict[str, float] = {}
    for row in range(len(BIDS)):
        amounts[f"first{row}"] = float(first.allocation[row, 0])
        amounts[f"given{row}"] = float(given.allocation[row, 0])
    return amounts


def report(rows: Rows, options: ExperimentOptions) -> ExperimentReport:  # noqa: ARG001 - the same for all
    """Return the printed allocations beside the computed ones."""
    (row,) = rows.values()
    first = [row[f"first{at}"] for at in range(len(BIDS))]
    given = [row[f"given{at}"] for at in range(len(BIDS))]
    names = tuple(f"VM {at}" for at in range(len(BIDS)))
    lines = (
        ("bid", BIDS),
        ("initial, printed", PRINTED_FIRST),
        ("initial, here", first),
        ("resulting, printed", PRINTED),
        ("resulting, here", given),
    )
    return ExperimentReport(
        (
            Grid(
                "CPU, in percent of a node",
                ("", *names),
                tuple((name, *(f"{value:.2f}" for value in values)) for name, values in lines),
            ),
        ),
        (
            PaperStatement(
                "the paper: its initial allocations", bool(np.allclose(first, PRINTED_FIRST))
            ),
            PaperStatement(
                "the paper: its resulting allocations",
                bool(np.allclose(given, PRINTED, atol=0.05)),
            ),
        ),
    )


EXPERIMENT = Experiment(
    "figure-3",
    "resource fragmentation: five VMs on three nodes",
    tasks,
    measure,
    report,
)
