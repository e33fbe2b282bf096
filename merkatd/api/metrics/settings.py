"""The settings of the metrics port."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class MetricsSettings:
    """The port for metrics."""

    enabled: bool = False
    """Whether the port is open."""
    address: str = "127.0.0.1"
    """The address of the port. Every client that reaches it can read the size and the prices of
    the cloud, and the VMs, bids, costs and balance of each group of users: so of a tenant that is
    alone in its group."""
    port: int = 9656
    """The number of the port; 0 for any free port."""
