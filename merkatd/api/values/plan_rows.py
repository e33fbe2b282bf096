"""Plans as plain dicts."""

from dataclasses import asdict

from merkatd.api.values.market_rows import Row, flat_row
from merkatd.cluster import Deploy, Migrate
from merkatd.service.market.plans import PlanPreview, PreviewedStep


def plan_row(preview: PlanPreview) -> Row:
    """Return a decision and its changes; one about a snapshot says nothing of earlier steps."""
    found = flat_row(preview)
    found["resources"] = list(preview.resources)
    found["steps"] = [_step_row(step) for step in preview.steps]
    found["reasons"] = {str(vm): reason for vm, reason in preview.reasons.items()}
    found["markets"] = {name: flat_row(market) for name, market in preview.markets.items()}
    found["vms"] = [flat_row(vm) for vm in preview.vms]
    del found["under_way"], found["overfull"]
    if preview.under_way is not None:
        found["under_way"] = [flat_row(step) for step in preview.under_way]
    if preview.overfull is not None:
        found["overfull"] = {str(host): why for host, why in preview.overfull.items()}
    return found


def _step_row(previewed: PreviewedStep) -> Row:
    step = previewed.step
    found: Row = {"id": step.id, "kind": step.kind, **asdict(step)}
    del found["period"]
    for role, name in (("source", previewed.source), ("host", previewed.host)):
        if role in found:
            found[role] = name
    if step.vm >= 0:
        found["name"] = previewed.name
        if isinstance(step, Migrate):
            found["moves_mib"] = previewed.moves_mib
        if isinstance(step, Deploy):
            found |= {"cost": previewed.cost, "rate": previewed.rate}
    return found
