"""What a platform's template says, as it was stored; and the market its VMs are in."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from twisted.logger import Logger

from merkatd.platforms.reading import read_stored
from merkatd.platforms.template import NOBODY, Budget, Template, TemplateError
from merkatd.remembering import Remembered, digest
from merkatd.scheduler.settings import Market

_log = Logger()
_NOTHING = Template(name="unreadable", controller=NOBODY, budget=Budget(credits=0.0), clusters=())
_MOST_KEPT_BYTES = 1 << 26
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
    monitors = [one.monitor.parameters for one in template.clusters if one.monitor is not None]
    given = sum(map(_weight, (template.parameters, *monitors)))
    return _OF_A_TEMPLATE + _OF_A_CLUSTER * len(template.clusters) + given


def _weight(value: Any) -> int:
    """Return about how many bytes a value takes that a tenant hands to a controller."""
    if isinstance(value, Mapping):
        return 3 * _OF_A_VALUE + sum(_weight(key) + _weight(one) for key, one in value.items())
    if isinstance(value, list):
        return _OF_A_VALUE + sum(map(_weight, value))
    return _OF_A_VALUE + (4 * len(value) if isinstance(value, str) else 0)


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
