"""The page about limits shows a configuration that the daemon takes."""

import re
from pathlib import Path

from merkatd.config.loader import parse

PAGE = Path(__file__).parents[2] / "docs/limits.md"


def test_its_configuration_is_one() -> None:
    """All of it together: hosts of two kinds, and both further goods."""
    tables = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(tables) == 2
    found = parse("\n".join(tables), PAGE.name)
    assert found.hypervisor.kind == "libvirt"
    assert found.hypervisor.uris == {"xen-*": "xen+ssh://root@{host}"}
    assert (found.goods.network, found.goods.disk) == (True, True)


def test_keys_it_names_are_keys() -> None:
    """With the defaults that it gives for them."""
    page, found = PAGE.read_text(), parse("").hypervisor
    assert f"`call_limit` ({found.call_limit_s:g} s)" in page
    assert f"`period_limit` ({found.period_limit_s:g} s)" in page
    assert f"`threads` hosts ({found.threads})" in page
    assert f"`xen_command` (`{found.xen_command}`)" in page
    assert found.check_every == 10
    assert "within ten periods\n(`check_every`)" in page
