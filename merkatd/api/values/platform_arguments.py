"""Arguments of calls about platforms, as the service expects them."""

from merkatd.currency import MOST_CREDITS
from merkatd.service.base.arguments import Arguments, number
from merkatd.service.platforms import MOST_PERFORMANCE, Update, deadline_of


def update_of(arguments: Arguments) -> Update:
    """Return the changes of a platform's goals and budget. Raise InvalidRequestError."""
    return Update(
        deadline=deadline_of(arguments.get("deadline")),
        budget=number(arguments, "budget", MOST_CREDITS),
        replenishment=number(arguments, "replenishment", MOST_CREDITS),
        performance=number(arguments, "performance", MOST_PERFORMANCE),
    )
