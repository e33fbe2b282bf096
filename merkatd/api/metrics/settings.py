"""What an administrator can choose about the figures."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class MetricsSettings:
    """Where they are read."""

    enabled: bool = False
    """Whether the port is open."""
    address: str = "127.0.0.1"
    """On which address: whoever reaches it may read how large the cloud is and what it costs, but
    nothing of any tenant."""
    port: int = 9656
    """On which port; 0 for any that is free."""
