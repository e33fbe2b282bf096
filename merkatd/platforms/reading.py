"""A template's text, parsed once: what is wrong is named key by key, with what would be right."""

from collections.abc import Mapping
from typing import Any

from merkatd import fields
from merkatd.currency import MOST_CREDITS
from merkatd.fields import Table
from merkatd.platforms import terms
from merkatd.platforms.bounded_toml import parse_toml, read_toml
from merkatd.platforms.ports import Amounts, Monitor
from merkatd.platforms.template import (
    PARTIAL,
    Budget,
    Cluster,
    Goal,
    OverBudget,
    Start,
    Template,
    TemplateError,
)
from merkatd.platforms.vm_text import wrong
from merkatd.scheduler.base.settings import ALL_GOODS

LONGEST = 32_768
"""Bytes."""
MOST_CLUSTERS = 16
MOST_VMS = 1_000
"""In one cluster."""
_LARGEST_ID = 2**31 - 1


def read_template(text: str) -> Template:
    """The template that a text is. Raises TemplateError, which names all that is wrong."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise TemplateError(["a template has no lone surrogates"]) from None
    if size > LONGEST:
        raise TemplateError([f"a template has at most {LONGEST} bytes"])
    try:
        values = read_toml(text)
    except ValueError as error:
        raise TemplateError([str(error)]) from None
    return _checked(values, stored=False)


def read_stored(text: str) -> Template:
    """Return the template of a text that was accepted before, perhaps by an earlier version.

    Times beyond today's bounds are moved to the nearest bound. Raise TemplateError.
    """
    try:
        values = parse_toml(text)
    except ValueError as error:
        raise TemplateError([str(error)]) from None
    return _checked(values, stored=True)


def _checked(values: Mapping[str, Any], *, stored: bool) -> Template:
    problems: list[str] = []
    found = _template(Table(values, "", problems, stored=stored))
    if problems:
        raise TemplateError(problems)
    return found


def _template(top: Table) -> Template:
    name = top.need("name", fields.name, "")
    controller = top.table("controller")
    kind = controller.need("kind", fields.name, "none")
    parameters: Mapping[str, Any] = controller.take("parameters", terms.plain, dict[str, Any]())
    controller.end()
    over = top.take("over_budget", fields.one_of(*OverBudget), OverBudget.STOP.value)
    market = top.take("market", _market, None)
    grace_s = top.take("grace", fields.duration, 30.0)
    if grace_s > 3600:
        top.wrong("grace", "at most an hour is right")
    goal = _goal(top.table("slo"), gives_up=kind != PARTIAL)
    budget, start = _budget(top), _start(top.table("start"))
    clusters = tuple(_cluster(one) for one in top.tables("cluster", MOST_CLUSTERS))
    if not 1 <= len(clusters) <= MOST_CLUSTERS:
        top.complain(f"cluster: 1 to {MOST_CLUSTERS} tables [[cluster]] are right")
    names = [one.name for one in clusters]
    if len(set(names)) != len(names):
        top.complain("cluster: each needs a name of its own")
    top.end()
    return Template(
        name=name,
        controller=kind,
        parameters=parameters,
        market=market,
        over_budget=OverBudget(over),
        grace_s=grace_s,
        goal=goal,
        budget=budget,
        start=start,
        clusters=clusters,
    )


def _market(value: Any) -> str | None:
    return fields.name(value)


def _goal(table: Table, *, gives_up: bool) -> Goal:
    goal = Goal(
        deadline=table.take("deadline", terms.moment, None),
        ideal_s=table.take("ideal_run", fields.duration, None),
        performance=table.take("performance", fields.number, None),
        give_up=table.take("give_up", fields.flag, default=gives_up),
    )
    if goal.ideal_s == 0:
        table.wrong("ideal_run", "more than no time is right")
    table.end()
    return goal


def _budget(top: Table) -> Budget:
    if not top.has("budget"):
        top.wrong("budget", "is missing: [budget] with credits is right")
    table = top.table("budget")
    found = Budget(
        credits=table.need("credits", _credits, 0.0) if top.has("budget") else 0.0,
        replenishment=table.take("replenishment", _credits, 0.0),
    )
    table.end()
    return found


def _credits(value: Any) -> float:
    return fields.number(value, MOST_CREDITS)


def _start(table: Table) -> Start:
    found = Start(
        not_before=table.take("not_before", terms.moment, None),
        latest=table.take("latest", terms.moment, None),
        price_ceiling=_amounts(table.table("price_ceiling")),
    )
    table.end()
    return found


def _amounts(table: Table) -> Amounts:
    given = {name: table.take(name, _maybe, None) for name in ALL_GOODS}
    table.end()
    return {name: value for name, value in given.items() if value is not None}


def _maybe(value: Any) -> float | None:
    return fields.number(value)


def _cluster(table: Table) -> Cluster:
    name = table.need("name", fields.name, "")
    initial = table.take("initial", fields.count(MOST_VMS), 1)
    least = table.take("least", fields.count(MOST_VMS), min(1, initial))
    most = table.take("most", fields.count(MOST_VMS), max(initial, least))
    if not least <= initial <= most or most == 0:
        table.wrong("initial", f"from least ({least}) to most ({most}), and one at least, is right")
    template = table.take("template", _stored_vm_text if table.stored else _vm_text, None)
    template_id = table.take("template_id", _id, None)
    template_name = table.take("template_name", _name, None)
    if sum(table.has(key) for key in ("template", "template_id", "template_name")) != 1:
        table.wrong("template", "one of template, template_id and template_name is right")
    floor, ceiling = _amounts(table.table("floor")), _amounts(table.table("ceiling"))
    for resource, amount in floor.items():
        if amount > ceiling.get(resource, amount):
            table.wrong("floor", f"of {resource} is above its ceiling")
    found = Cluster(
        name=name,
        template=template,
        template_id=template_id,
        template_name=template_name,
        least=least,
        initial=initial,
        most=most,
        floor=floor,
        ceiling=ceiling,
        monitor=_monitor(table),
    )
    table.end()
    return found


def _monitor(cluster: Table) -> Monitor | None:
    table = cluster.table("monitor")
    if not cluster.has("monitor"):
        return None
    found = Monitor(
        kind=table.need("kind", fields.name, ""),
        parameters=table.take("parameters", terms.plain, dict[str, Any]()),
    )
    table.end()
    return found


def _vm_text(value: Any) -> str | None:
    text = fields.text(value)
    problem = wrong(text)
    if problem is not None:
        raise ValueError(problem)
    return text


def _stored_vm_text(value: Any) -> str | None:
    return fields.text(value)


def _id(value: Any) -> int | None:
    return fields.count(_LARGEST_ID)(value)


def _name(value: Any) -> str | None:
    found = fields.text(value)
    if len(found) > 128 or not found.isprintable():
        raise ValueError("a name of 1 to 128 characters is right")
    return found
