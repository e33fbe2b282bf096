"""Checks of a template against a site: its kinds of controllers, its markets and its goods."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from merkatd.base import parameter_bounds
from merkatd.base.line_patterns import pattern_of
from merkatd.base.parameter_bounds import OF_EVERY_MONITOR
from merkatd.base.quantities import utc_text
from merkatd.base.toml_reader import listed
from merkatd.platforms.declarations.application_reader import TABLES
from merkatd.platforms.declarations.application_terms import JobTerms
from merkatd.platforms.declarations.template_time import TemplateTime
from merkatd.platforms.lifecycle.platform_template import (
    NO_CONTROLLER,
    PATIENT,
    PlatformTemplate,
    VirtualCluster,
)
from merkatd.platforms.lifecycle.template_reader import (
    MOST_GIVEN_BYTES,
    given_in,
    parsed,
    read_template,
    weight,
)
from merkatd.policies.batch_terms import QUEUE, batch_name, unserved
from merkatd.protocol.controller_kinds import CONTROLLERS, MONITORS
from merkatd.protocol.monitor_terms import WORKER, WorkerNames, check_address
from merkatd.protocol.platform_messages import Kinds
from merkatd.protocol.request_terms import REQUESTS, request_problems

ELASTIC: Final = "elastic"
"""The kind of controller for a batch system."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteOffer:
    """The kinds, markets and goods that a site offers."""

    kinds: Kinds
    markets: Sequence[str]
    order_markets: Sequence[str]
    """The markets with limit orders."""
    goods: Sequence[str]
    free_markets: Collection[str] = ()
    """The markets that charge nothing: platforms there need no budget."""
    own_markets: Mapping[str, str] = field(default_factory=dict)
    """The strategies by market, of the markets whose strategy states what each VM gets."""
    now_s: float
    """The time of the submission."""


@dataclass(frozen=True, slots=True)
class CheckedTemplate:
    """A template that has passed the site's checks, and its text."""

    text: str
    template: PlatformTemplate
    token: str = ""
    """The id of a submission that its sender may repeat; empty for one of its own."""


def check_template(text: str, offered: SiteOffer) -> CheckedTemplate:
    """Parse and check a template. Raise TemplateError, which lists all errors.

    It takes too long for the event loop, and for a transaction that blocks others.
    """
    first = next(iter(offered.markets), "")
    template = read_template(
        text,
        lambda market: (market or first) not in offered.free_markets,
        lambda template, found: _more_problems(template, offered, found),
    )
    parsed(text)  # fills the cache: the transaction that stores the text need not parse it
    return CheckedTemplate(text, template)


def _more_problems(
    template: PlatformTemplate, offered: SiteOffer, found: Sequence[str]
) -> list[str]:
    """Return the site's problems with a template, except those with values found to be wrong.

    A wrong value is read as its default, so a problem with it would mislead.
    """
    wrong = {_key(problem) for problem in found}
    return [problem for problem in _problems(template, offered) if _key(problem) not in wrong]


def _key(problem: str) -> str:
    """Return the key that a problem is about."""
    return problem.split(maxsplit=1)[0].rstrip(":")


def _problems(template: PlatformTemplate, offered: SiteOffer) -> Iterator[str]:
    kinds = offered.kinds
    yield from _unknown("controller.kind", template.controller, [*kinds.controllers, NO_CONTROLLER])
    yield from _too_heavy(template)
    if template.controller in CONTROLLERS:
        for problem in parameter_bounds.problems(template.parameters):
            yield f"controller.parameters.{problem}"
        for problem in _worker_problems(template.parameters):
            yield f"controller.parameters: {problem}"
    if template.controller == ELASTIC:
        monitors = {cluster.name: cluster.monitor for cluster in template.clusters}
        yield from unserved(template.parameters, monitors, MONITORS)
    if template.market is not None:
        yield from _unknown("market", template.market, offered.markets)
    if template.controller == PATIENT:
        yield from _patient_problems(template, offered)
    yield from _bidding_problems(template, offered)
    yield from _deadline_problems(template, offered.now_s)
    if isinstance(template.application, JobTerms) and template.application.goal is not None:
        yield from _goal_problems(template, template.application.goal, offered.now_s)
    yield from _unsold("start.price_ceiling", template.start.price_ceiling, offered.goods)
    for at, cluster in enumerate(template.clusters, start=1):
        yield from _cluster_problems(f"cluster[{at}]", cluster, offered)


def _patient_problems(template: PlatformTemplate, offered: SiteOffer) -> Iterator[str]:
    if template.goal.deadline is None:
        yield f"slo.deadline is missing: kind `{PATIENT}` needs a deadline"
    market = template.market or next(iter(offered.markets), "")
    if market in offered.markets and market not in offered.order_markets:
        yield (
            f"controller.kind `{PATIENT}` needs a market with limit orders (got market"
            f" {market!r}); accepted markets: {listed(offered.order_markets) or 'none'}"
        )


def _bidding_problems(template: PlatformTemplate, offered: SiteOffer) -> Iterator[str]:
    """Yield an error for a controller in a market where bids have no effect."""
    market = template.market or next(iter(offered.markets), "")
    if template.controller != NO_CONTROLLER and market in offered.own_markets:
        yield (
            f"controller.kind must be {NO_CONTROLLER} in market {market} (got"
            f" {template.controller!r}): its strategy {offered.own_markets[market]} states what"
            " each VM gets, so bids have no effect; leave out [controller] in a template with"
            f" one of {listed(TABLES)}"
        )


def _deadline_problems(template: PlatformTemplate, now_s: float) -> Iterator[str]:
    """Yield an error for a deadline that ends the platform before it starts."""
    if template.goal.deadline is not None:
        yield from _too_early("slo.deadline", template.goal.deadline, template, now_s)


def _goal_problems(template: PlatformTemplate, goal: TemplateTime, now_s: float) -> Iterator[str]:
    """Yield errors for a goal that no job of this template can reach."""
    yield from _too_early("job.goal", goal, template, now_s)
    deadline = template.goal.deadline
    if deadline is not None and goal.seconds(now_s) > deadline.seconds(now_s):
        yield (
            f"job.goal: must be at most slo.deadline, {utc_text(deadline.seconds(now_s))}, when"
            f" the platform ends (got {utc_text(goal.seconds(now_s))})"
        )


def new_deadline_problems(
    template: PlatformTemplate,
    deadline_s: float,
    not_before_s: float | None,
    submitted_s: float,
    now_s: float,
) -> Iterator[str]:
    """Yield an error for a new deadline of a platform that could not have been submitted with it.

    `not_before_s` is its earliest start, if it still waits.
    """
    before_start = list(end_problems("deadline", deadline_s, not_before_s, now_s))
    yield from before_start
    terms = template.application
    goal = terms.goal if isinstance(terms, JobTerms) else None
    if goal is not None and not before_start and deadline_s < goal.seconds(submitted_s):
        yield (
            f"deadline: must be at least job.goal, {utc_text(goal.seconds(submitted_s))}, when the"
            f" job should end (got {utc_text(deadline_s)})"
        )


def _too_early(
    key: str, end: TemplateTime, template: PlatformTemplate, now_s: float
) -> Iterator[str]:
    """Yield an error for an end that has passed, or is not after the earliest start."""
    not_before = template.start.not_before
    start_s = None if not_before is None else not_before.seconds(now_s)
    yield from end_problems(key, end.seconds(now_s), start_s, now_s)


def end_problems(key: str, end_s: float, not_before_s: float | None, now_s: float) -> Iterator[str]:
    """Yield an error for an end that has passed, or is not after this earliest start."""
    if end_s <= now_s:
        yield f"{key}: {utc_text(end_s)} has passed"
    elif not_before_s is not None and end_s <= not_before_s:
        yield (
            f"{key}: must be after start.not_before, {utc_text(not_before_s)}"
            f" (got {utc_text(end_s)})"
        )


def _too_heavy(template: PlatformTemplate) -> Iterator[str]:
    """Yield an error for the parameters that exceed the template's memory limit."""
    taken = 0
    for path, value in given_in(template):
        taken += weight(value)
        if taken > MOST_GIVEN_BYTES:
            yield (
                f"{path}: all parameters up to here must take at most {MOST_GIVEN_BYTES} bytes of"
                f" memory (got {taken}); a value takes about 100 bytes, a table 300"
            )
            return


def _cluster_problems(path: str, cluster: VirtualCluster, offered: SiteOffer) -> Iterator[str]:
    if cluster.monitor is not None:
        yield from _unknown(f"{path}.monitor.kind", cluster.monitor.kind, offered.kinds.monitors)
        parameters = cluster.monitor.parameters
        numbers = parameter_bounds.NUMBERS if cluster.monitor.kind in MONITORS else OF_EVERY_MONITOR
        for problem in parameter_bounds.problems(parameters, numbers):
            yield f"{path}.monitor.parameters.{problem}"
        for problem in _monitor_problems(parameters, offered.kinds.addresses):
            yield f"{path}.monitor.parameters: {problem}"
        if cluster.monitor.kind == QUEUE:
            yield from _batch_problems(f"{path}.monitor", parameters)
        if cluster.monitor.kind == REQUESTS:
            for problem in request_problems(parameters):
                yield f"{path}.monitor.parameters.{problem}"
    yield from _unsold(f"{path}.floor", cluster.floor, offered.goods)
    yield from _unsold(f"{path}.ceiling", cluster.ceiling, offered.goods)


def _monitor_problems(
    parameters: Mapping[str, Any], addresses: Sequence[str] | None
) -> Iterator[str]:
    """Yield the errors for which a monitor would refuse to start."""
    try:
        if "pattern" in parameters:
            pattern_of(str(parameters["pattern"]))
        if "address" in parameters and addresses is not None:
            check_address(str(parameters["address"]), addresses)
    except ValueError as error:
        yield str(error)
    yield from _worker_problems(parameters)


def _worker_problems(parameters: Mapping[str, Any]) -> Iterator[str]:
    try:
        WorkerNames.of(str(parameters.get("worker", WORKER)))
    except ValueError as error:
        yield str(error)


def _batch_problems(path: str, parameters: Mapping[str, Any]) -> Iterator[str]:
    try:
        batch_name(parameters)
    except ValueError as error:
        yield f"{path}.{error}"


def _unknown(key: str, given: str, there: Sequence[str]) -> Iterator[str]:
    if given not in there:
        yield f"{key} is unknown (got {given!r}); accepted: {listed(there) or 'none'}"


def _unsold(key: str, given: Collection[str], goods: Sequence[str]) -> Iterator[str]:
    for name in given:
        if name not in goods:
            yield f"{key}.{name}: must be a good that is sold here ({listed(goods)})"
