"""Errors of the ledger."""

from merkatd.base.quantities import exact_credits_text
from merkatd.currency import MICRO
from merkatd.database.ledger.account_store import AccountRow


class LedgerError(ValueError):
    """A refused call; the message says what is accepted."""


class NotFoundError(LedgerError):
    """An unknown tenant, application or account."""


def balance_text(account: AccountRow) -> str:
    """Describe the balance of an account and the part that can be moved."""
    held = exact_credits_text(account.balance / MICRO)
    if not account.reserved:
        return held
    return (
        f"{held}, of which {exact_credits_text(account.reserved / MICRO)} are reserved for the"
        f" charge of the present period; at most {exact_credits_text(account.free / MICRO)} can be"
        " moved now"
    )
