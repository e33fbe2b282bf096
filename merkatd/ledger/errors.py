"""What the ledger refuses."""

from merkatd.currency import MICRO
from merkatd.database.ledger.account_store import AccountRow


class LedgerError(ValueError):
    """It can't be done as it was asked for; the message says what would be right."""


class NotFoundError(LedgerError):
    """There is no such tenant, application or account."""


def told(account: AccountRow) -> str:
    """What an account holds and what of it may be moved, in words."""
    held = f"{account.balance / MICRO:g}"
    if not account.reserved:
        return held
    return (
        f"{held}, of which {account.reserved / MICRO:g} are reserved for the charge of the present"
        f" period; at most {account.free / MICRO:g} can be moved now"
    )
