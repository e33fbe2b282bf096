"""The present prices as they are sent: written once a period, however often they are asked for."""

from weakref import WeakKeyDictionary

from merkatd.api.questions.words import one_of
from merkatd.api.xmlrpc.encoding import Encoded, encoded
from merkatd.api.xmlrpc.table import House
from merkatd.scheduler.phases.announce import Announcement


class WrittenPrices:
    """Remembers what was written of the latest period."""

    def __init__(self) -> None:
        self._of: Announcement | None = None
        self._written: dict[str, Encoded] = {}

    def of(self, latest: Announcement, market: str) -> Encoded:
        """The prices of one market, or of all where none is named. Raises QuestionError."""
        if self._of is not latest:
            self._of, self._written = latest, {}
        found = self._written.get(market)
        if found is None:
            if market:
                one_of({"market": market}, "market", list(latest.prices))
            found = self._written[market] = encoded(_rows(latest, market))
        return found


_KEPT = WeakKeyDictionary[House, WrittenPrices]()


def written_prices(house: House) -> WrittenPrices:
    """What is written of this daemon's prices."""
    found = _KEPT.get(house)
    if found is None:
        found = _KEPT[house] = WrittenPrices()
    return found


def _rows(latest: Announcement, market: str) -> list[dict[str, object]]:
    return [
        {
            "market": name,
            "resource": resource,
            "price": price,
            "period": latest.period,
            "at_s": latest.at_s,
        }
        for name, by_resource in latest.prices.items()
        for resource, price in by_resource.items()
        if market in {"", name}
    ]
