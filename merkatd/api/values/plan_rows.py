"""Plans as plain dicts."""

from dataclasses import asdict

from merkatd.api.values.market_rows import Row, flat_row
from merkatd.cluster import Deploy, Migrate
from merkatd.service.market.plans import PlanPreview, PreviewedStep


def plan_row(preview: PlanPreview) -> Row:
    """Return a decision and its changes; one about a snapshot says nothing of earlier steps."""
    columns = flat_row(preview)
    columns["resources"] = list(preview.resources)
    columns["steps"] = [_step_row(step) for step in preview.steps]
    columns["reasons"] = {str(vm): reason for vm, reason in preview.reasons.items()}
    columns["messages"] = {str(vm): message for vm, message in preview.messages.items()}
    columns["markets"] = {name: flat_row(market) for name, market in preview.markets.items()}
    columns["vms"] = [flat_row(vm) for vm in preview.vms]
    columns["wishes"] = [asdict(wish) for wish in preview.wishes]
    columns["left_hosts"] = {str(host): why for host, why in preview.left_hosts.items()}
    del columns["under_way"], columns["overfull"]
    if preview.under_way is not None:
        columns["under_way"] = [flat_row(step) for step in preview.under_way]
    if preview.overfull is not None:
        columns["overfull"] = {str(host): why for host, why in preview.overfull.items()}
    return columns


def _step_row(previewed: PreviewedStep) -> Row:
    step = previewed.step
    columns: Row = {"id": step.id, "kind": step.kind, **asdict(step)}
    del columns["period"]
    for role, name in (("source", previewed.source), ("host", previewed.host)):
        if role in columns:
            columns[role] = name
    if step.vm >= 0:
        columns["name"] = previewed.name
        if isinstance(step, Migrate):
            columns["moves_mib"] = previewed.moves_mib
        if isinstance(step, Deploy):
            columns |= {"cost": previewed.cost, "rate": previewed.rate}
    return columns
