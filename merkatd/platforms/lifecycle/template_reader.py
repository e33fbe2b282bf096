"""The parser of platform templates, and the cache of parsed templates."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from twisted.logger import Logger

from merkatd.base import toml_reader
from merkatd.base.bounded_cache import BoundedCache, digest
from merkatd.base.bounded_toml import parse_toml, read_toml
from merkatd.base.toml_reader import TomlTable
from merkatd.currency import MOST_CREDITS
from merkatd.fleets.vm_template_text import TemplateError, template_problem
from merkatd.platforms.declarations.application_reader import declares, read_application
from merkatd.platforms.declarations.application_terms import JobTerms
from merkatd.platforms.declarations.template_time import moment
from merkatd.platforms.lifecycle.platform_template import (
    NO_CONTROLLER,
    PARTIAL,
    PlatformTemplate,
    StartTerms,
    TemplateBudget,
    TemplateGoal,
    VirtualCluster,
)
from merkatd.platforms.rules.lifecycle_events import BudgetPolicy
from merkatd.protocol.platform_messages import Amounts, MonitorTerms
from merkatd.scheduler.base.settings import ALL_GOODS, MarketRules

MAX_WHOLE_NUMBER: Final = 2**53
"""The largest whole number that reaches a controller exactly, as JSON."""


def plain(value: Any) -> dict[str, Any]:
    """Return a table as a dictionary; raise ValueError for values that JSON can't carry."""
    if not isinstance(value, Mapping):
        raise ValueError("must be a table")  # noqa: TRY004 - `take` expects ValueError
    _check_plain(value, 0)
    return dict(value)


def _check_plain(value: Any, depth: int) -> None:
    if depth > 8:
        raise ValueError("tables must be nested at most 8 deep")
    if isinstance(value, Mapping):
        for inner in value.values():
            _check_plain(inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            _check_plain(inner, depth + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"must contain only finite numbers (got {value})")
    elif isinstance(value, int) and abs(value) > MAX_WHOLE_NUMBER:
        raise ValueError(f"whole numbers must be from -{MAX_WHOLE_NUMBER} to {MAX_WHOLE_NUMBER}")
    elif not isinstance(value, bool | int | float | str):
        raise ValueError("must contain only texts, numbers, true, false, lists and tables")


MAX_TEMPLATE_LENGTH = 32_768
"""The limit of a template's text, in bytes."""
MOST_CLUSTERS = 16
MOST_VMS = 1_000
"""The limit of VMs in one cluster."""
_LARGEST_ID = 2**31 - 1


NeedsBudget: TypeAlias = Callable[[str | None], bool]
Check: TypeAlias = Callable[[PlatformTemplate, Sequence[str]], Iterable[str]]


def read_template(
    text: str,
    needs_budget: NeedsBudget = lambda _market: True,
    check: Check = lambda _template, _problems: (),
) -> PlatformTemplate:
    """Parse a template. Raise TemplateError, which lists all errors, also those of `check`.

    `needs_budget` returns whether platforms in a market, None for the first one, need a budget.
    """
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise TemplateError(["a template must not contain lone surrogates"]) from None
    if size > MAX_TEMPLATE_LENGTH:
        raise TemplateError(
            [f"a template must have at most {MAX_TEMPLATE_LENGTH} bytes (got {size})"]
        )
    try:
        values = read_toml(text)
    except ValueError as error:
        raise TemplateError([str(error)]) from None
    return _checked(values, needs_budget, check)


def read_stored(text: str) -> PlatformTemplate:
    """Parse a stored template, which perhaps an earlier version accepted.

    Times beyond today's bounds are moved to the nearest bound. Raise TemplateError.
    """
    try:
        values = parse_toml(text)
    except ValueError as error:
        raise TemplateError([str(error)]) from None
    return _checked(values, lambda _market: False, None)


def _checked(
    values: Mapping[str, Any], needs_budget: NeedsBudget, check: Check | None
) -> PlatformTemplate:
    problems: list[str] = []
    top = TomlTable(values, "", problems, stored=check is None)
    template = _template(top)
    if not top.has("budget") and needs_budget(template.market):
        top.wrong("budget", "is missing; expected a table [budget] with `credits`")
    problems += [] if check is None else check(template, problems)
    if problems:
        raise TemplateError(problems)
    return template


def _template(top: TomlTable) -> PlatformTemplate:
    name = top.need("name", toml_reader.name, "")
    controller = top.table("controller")
    if declares(top) and not top.has("controller"):
        kind = NO_CONTROLLER
    else:
        kind = controller.need("kind", toml_reader.name, NO_CONTROLLER)
    parameters: Mapping[str, Any] = controller.take("parameters", plain, dict[str, Any]())
    controller.end()
    over = top.take("over_budget", toml_reader.one_of(*BudgetPolicy), BudgetPolicy.STOP.value)
    market = top.take("market", _market, None)
    grace_s = top.take("grace", toml_reader.duration, 30.0)
    if grace_s > 3600:
        top.wrong("grace", "must be at most an hour")
    goal = _goal(top.table("slo"), gives_up=kind != PARTIAL)
    budget, start = _budget(top), _start(top.table("start"))
    clusters = tuple(_cluster(table) for table in top.tables("cluster", MOST_CLUSTERS))
    if not 1 <= len(clusters) <= MOST_CLUSTERS:
        top.complain(
            f"cluster: expected 1 to {MOST_CLUSTERS} tables [[cluster]] (got {len(clusters)})"
        )
    names = [cluster.name for cluster in clusters]
    if len(set(names)) != len(names):
        top.complain("cluster: each cluster must have a unique name")
    monitored = {cluster.name: cluster.monitor is not None for cluster in clusters}
    application = read_application(top, monitored, sum(cluster.most for cluster in clusters))
    top.end()
    return PlatformTemplate(
        name=name,
        controller=kind,
        parameters=parameters,
        market=market,
        over_budget=BudgetPolicy(over),
        grace_s=grace_s,
        goal=goal,
        budget=budget,
        start=start,
        clusters=clusters,
        application=application,
    )


def _market(value: Any) -> str | None:
    return toml_reader.name(value)


def _goal(table: TomlTable, *, gives_up: bool) -> TemplateGoal:
    goal = TemplateGoal(
        deadline=table.take("deadline", moment, None),
        ideal_s=table.take("ideal_run", toml_reader.duration, None),
        performance=table.take("performance", toml_reader.number, None),
        give_up=table.take("give_up", toml_reader.flag, default=gives_up),
    )
    if goal.ideal_s == 0:
        table.wrong("ideal_run", "must be above 0")
    table.end()
    return goal


def _budget(top: TomlTable) -> TemplateBudget:
    if not top.has("budget"):
        return TemplateBudget(credits=0.0)
    table = top.table("budget")
    budget = TemplateBudget(
        credits=table.need("credits", _credits, 0.0),
        replenishment=table.take("replenishment", _credits, 0.0),
    )
    table.end()
    return budget


def _credits(value: Any) -> float:
    return toml_reader.number(value, MOST_CREDITS)


def _start(table: TomlTable) -> StartTerms:
    terms = StartTerms(
        not_before=table.take("not_before", moment, None),
        latest=table.take("latest", moment, None),
        price_ceiling=_amounts(table.table("price_ceiling")),
    )
    table.end()
    return terms


def _amounts(table: TomlTable) -> Amounts:
    given = {name: table.take(name, _maybe, None) for name in ALL_GOODS}
    table.end()
    return {name: value for name, value in given.items() if value is not None}


def _maybe(value: Any) -> float | None:
    return toml_reader.number(value)


def _cluster(table: TomlTable) -> VirtualCluster:
    name = table.need("name", toml_reader.name, "")
    initial = table.take("initial", toml_reader.count(MOST_VMS), 1)
    least = table.take("least", toml_reader.count(MOST_VMS), min(1, initial))
    most = table.take("most", toml_reader.count(MOST_VMS), max(initial, least))
    if not least <= initial <= most or most == 0:
        table.wrong("initial", f"must be from least ({least}) to most ({most}), with most above 0")
    template = table.take("template", _stored_vm_text if table.stored else _vm_text, None)
    template_id = table.take("template_id", _id, None)
    template_name = table.take("template_name", _name, None)
    if sum(table.has(key) for key in ("template", "template_id", "template_name")) != 1:
        table.wrong("template", "expected exactly one of template, template_id and template_name")
    floor, ceiling = _amounts(table.table("floor")), _amounts(table.table("ceiling"))
    for resource, amount in floor.items():
        if amount > ceiling.get(resource, amount):
            table.wrong("floor", f"{resource} must be at most its ceiling, {ceiling[resource]:g}")
    cluster = VirtualCluster(
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
    return cluster


def _monitor(cluster: TomlTable) -> MonitorTerms | None:
    table = cluster.table("monitor")
    if not cluster.has("monitor"):
        return None
    monitor = MonitorTerms(
        kind=table.need("kind", toml_reader.name, ""),
        parameters=table.take("parameters", plain, dict[str, Any]()),
    )
    table.end()
    return monitor


def _vm_text(value: Any) -> str | None:
    text = toml_reader.text(value)
    problem = template_problem(text)
    if problem is not None:
        raise ValueError(problem)
    return text


def _stored_vm_text(value: Any) -> str | None:
    return toml_reader.text(value)


def _id(value: Any) -> int | None:
    return toml_reader.count(_LARGEST_ID)(value)


def _name(value: Any) -> str | None:
    text = toml_reader.text(value)
    if len(text) > 128 or not text.isprintable():
        raise ValueError("must be a name of 1 to 128 printable characters")
    return text


_log = Logger()
_NOTHING = PlatformTemplate(
    name="unreadable", controller=NO_CONTROLLER, budget=TemplateBudget(credits=0.0), clusters=()
)
_MOST_KEPT_BYTES = 1 << 26
MOST_GIVEN_BYTES = 1 << 15
"""The limit of memory for all parameters of a template: large ones would fill the cache."""
_OF_A_TEMPLATE = 2_000
_OF_A_CLUSTER = 1_500
_OF_A_STAGE = 300
_OF_A_VALUE = 100


def _read(text: str) -> PlatformTemplate:
    try:
        template = read_stored(text)
    except TemplateError as error:
        _log.warn("Could not parse the stored template of a platform: {why}", why=str(error))
        return _NOTHING
    # VM templates are stored separately, with their variables replaced.
    clusters = tuple(replace(cluster, template=None) for cluster in template.clusters)
    return replace(template, clusters=clusters)


def _bytes(_text: str, template: PlatformTemplate) -> int:
    given = sum(weight(parameters) for _, parameters in given_in(template))
    stages = template.application.stages if isinstance(template.application, JobTerms) else ()
    given += _OF_A_STAGE * len(stages)
    return _OF_A_TEMPLATE + _OF_A_CLUSTER * len(template.clusters) + given


def given_in(template: PlatformTemplate) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the path and the parameters of the controller and of each monitor."""
    yield "controller.parameters", template.parameters
    for at, cluster in enumerate(template.clusters, start=1):
        if cluster.monitor is not None:
            yield f"cluster[{at}].monitor.parameters", cluster.monitor.parameters


def weight(value: Any) -> int:
    """Return about how many bytes of memory a parameter of a controller takes."""
    if isinstance(value, Mapping):
        return 3 * _OF_A_VALUE + sum(weight(key) + weight(inner) for key, inner in value.items())
    if isinstance(value, list):
        return _OF_A_VALUE + sum(map(weight, value))
    if isinstance(value, str):
        return _OF_A_VALUE + len(value) * (1 if value.isascii() else 4)
    return _OF_A_VALUE


_parsed = BoundedCache(_read, _bytes, _MOST_KEPT_BYTES, digest)


def parsed(text: str) -> PlatformTemplate:
    """Return the cached template of a stored text, without the VM templates.

    A text that can't be parsed (of an earlier version, or changed by hand) counts as a platform
    without VMs and without a controller. So it stops no period, and its tenant can still end it.
    """
    return _parsed(text)


def market_of(template: PlatformTemplate, markets: Sequence[MarketRules]) -> MarketRules:
    """Return the market of a template; the first one if it names none or an unknown one."""
    return next((market for market in markets if market.name == template.market), markets[0])
