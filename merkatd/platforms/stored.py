"""What a platform's template says, as it was stored; and the market its VMs are in."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from twisted.logger import Logger

from merkatd.platforms.reading import read_stored
from merkatd.platforms.template import NOBODY, Budget, Template, TemplateError
from merkatd.remembering import Remembered, digest
from merkatd.scheduler.base.settings import Market

_log = Logger()
_NOTHING = Template(name="unreadable", controller=NOBODY, budget=Budget(credits=0.0), clusters=())
_MOST_KEPT_BYTES = 1 << 26
MOST_GIVEN_BYTES = 1 << 15
"""All parameters of a template. Large ones leave the cache no room for others' templates."""
_OF_A_TEMPLATE = 2_000
_OF_A_CLUSTER = 1_500
_OF_A_VALUE = 100


def _read(text: str) -> Template:
    try:
        template = read_stored(text)
    except TemplateError as error:
        _log.warn("The stored template of a platform can't be read: {why}", why=str(error))
        return _NOTHING
    # The texts of VMs are stored beside it, with their variables replaced.
    clusters = tuple(replace(one, template=None) for one in template.clusters)
    return replace(template, clusters=clusters)


def _bytes(_text: str, template: Template) -> int:
    given = sum(weight(parameters) for _, parameters in given_in(template))
    return _OF_A_TEMPLATE + _OF_A_CLUSTER * len(template.clusters) + given


def given_in(template: Template) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Return the parameters of its controller and of its monitors, and where in it they stand."""
    yield "controller.parameters", template.parameters
    for at, cluster in enumerate(template.clusters, start=1):
        if cluster.monitor is not None:
            yield f"cluster[{at}].monitor.parameters", cluster.monitor.parameters


def weight(value: Any) -> int:
    """Return about how many bytes a value takes that a tenant hands to a controller."""
    if isinstance(value, Mapping):
        return 3 * _OF_A_VALUE + sum(weight(key) + weight(one) for key, one in value.items())
    if isinstance(value, list):
        return _OF_A_VALUE + sum(map(weight, value))
    if isinstance(value, str):
        return _OF_A_VALUE + len(value) * (1 if value.isascii() else 4)
    return _OF_A_VALUE


_parsed = Remembered(_read, _bytes, _MOST_KEPT_BYTES, digest)


def parsed(text: str) -> Template:
    """Return the template of a stored text, which never changes, without the texts of VMs.

    A text that can't be read (an earlier version's, or one changed by hand) counts as a platform
    without VMs and without a controller: it stops no period, and its tenant can still end it.
    """
    return _parsed(text)


def market_of(template: Template, markets: Sequence[Market]) -> Market:
    """Where its VMs are: as it says, or the first one."""
    return next((one for one in markets if one.name == template.market), markets[0])
