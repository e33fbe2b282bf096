"""The hosts of a pool's text."""

from merkatd.opennebula.pools.host_pool import HostPool, HostRow


def read_hosts(pool: str) -> list[HostRow]:
    """Return the hosts of a pool's text, without a cache."""
    return HostPool().read(pool)
