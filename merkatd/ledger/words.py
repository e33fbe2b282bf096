"""Words that several refusals of the ledger have in common."""

from merkatd.currency import MICRO
from merkatd.database.accounts import Account


def told(account: Account) -> str:
    """What an account holds and what of it may be moved, in words."""
    held = f"{account.balance / MICRO:g}"
    if not account.reserved:
        return held
    return (
        f"{held}, of which {account.reserved / MICRO:g} are reserved for the charge of the present"
        f" period; at most {account.free / MICRO:g} can be moved now"
    )
