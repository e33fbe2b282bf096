"""What the ledger refuses, in words for whoever asked."""


class LedgerError(ValueError):
    """It can't be done as it was asked for; the message says what would be right."""


class NotFoundError(LedgerError):
    """There is no such tenant, application or account."""
