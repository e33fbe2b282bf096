"""What a platform's template says, as it was stored; and the market its VMs are in."""

from collections.abc import Sequence
from functools import lru_cache

from twisted.logger import Logger

from merkatd.platforms.reading import read_stored
from merkatd.platforms.template import NOBODY, Budget, Template, TemplateError
from merkatd.scheduler.settings import Market

_log = Logger()
_NOTHING = Template(name="unreadable", controller=NOBODY, budget=Budget(credits=0.0), clusters=())


@lru_cache(maxsize=1000)
def parsed(text: str) -> Template:
    """Return the template of a stored text, which never changes.

    A text that can't be read (an earlier version's, or one changed by hand) counts as a platform
    without VMs and without a controller: it stops no period, and its tenant can still end it.
    """
    try:
        return read_stored(text)
    except TemplateError as error:
        _log.warn("The stored template of a platform can't be read: {why}", why=str(error))
        return Template(
            name="unreadable", controller=NOBODY, budget=Budget(credits=0.0), clusters=()
        )


def market_of(template: Template, markets: Sequence[Market]) -> Market:
    """Where its VMs are: as it says, or the first one."""
    return next((one for one in markets if one.name == template.market), markets[0])
