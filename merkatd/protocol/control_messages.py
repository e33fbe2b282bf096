"""What the record of steps can be asked for, in words that cost a command nothing to know."""

KINDS = (
    "create",
    "deploy",
    "migrate",
    "suspend",
    "resume",
    "stop",
    "terminate",
    "limit",
    "pin",
    "balloon",
    "throttle",
)
STATES = ("planned", "sent", "confirmed", "refused", "expired")
