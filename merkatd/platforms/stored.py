"""What a platform's template says, as it was stored; and the market its VMs are in."""

from collections.abc import Sequence
from functools import lru_cache

from merkatd.platforms.reading import read_template
from merkatd.platforms.template import Template
from merkatd.scheduler.settings import Market

parsed = lru_cache(maxsize=1000)(read_template)
"""Templates were right when they were stored, and don't change."""


def market_of(template: Template, markets: Sequence[Market]) -> Market:
    """Where its VMs are: as it says, or the first one."""
    return next((one for one in markets if one.name == template.market), markets[0])
