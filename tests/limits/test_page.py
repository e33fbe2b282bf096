"""The page about limits shows a configuration that the daemon accepts."""

import re
from pathlib import Path

from merkatd.config.loader import parse

PAGE = Path(__file__).parents[2] / "docs/limits.md"


def test_its_configuration_is_valid() -> None:
    """All tables together are valid: hosts of two kinds, and both additional goods."""
    tables = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(tables) == 2
    config = parse("\n".join(tables), PAGE.name)
    assert config.hypervisor.kind == "libvirt"
    assert config.hypervisor.uris == {"xen-*": "xen+ssh://root@{host}"}
    assert (config.goods.network, config.goods.disk) == (True, True)


def test_its_keys_and_defaults_exist() -> None:
    """The page names existing keys with their defaults."""
    page, defaults = PAGE.read_text(), parse("").hypervisor
    assert f"`call_limit` ({defaults.call_limit_s:g} s)" in page
    assert f"`period_limit` ({defaults.period_limit_s:g} s)" in page
    assert f"`threads` hosts ({defaults.threads})" in page
    assert f"`xen_command` (`{defaults.xen_command}`)" in page
    assert defaults.check_every == 10
    assert "within ten periods\n(`check_every`)" in page
