"""Errors of the ledger."""

from merkatd.currency import MICRO
from merkatd.database.ledger.account_store import AccountRow


class LedgerError(ValueError):
    """A refused call; the message says what is accepted."""


class NotFoundError(LedgerError):
    """An unknown tenant, application or account."""


def balance_text(account: AccountRow) -> str:
    """Describe the balance of an account and the part that can be moved."""
    held = f"{account.balance / MICRO:g}"
    if not account.reserved:
        return held
    return (
        f"{held}, of which {account.reserved / MICRO:g} are reserved for the charge of the present"
        f" period; at most {account.free / MICRO:g} can be moved now"
    )
