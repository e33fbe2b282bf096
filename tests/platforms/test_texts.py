"""A platform's texts are parsed once, and never inside of a writing transaction."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from merkatd.fleets import vm_template_text
from merkatd.platforms import manager, tenant_orders
from merkatd.platforms.lifecycle import template_reader
from tests.platforms.site import VM, Site, template

WAITS = '[start]\nnot_before = "30d"'


def clusters(count: int) -> str:
    """Return clusters with different texts."""
    return "\n".join(
        f"[[cluster]]\nname = 'c{number}'\ntemplate = '''\n{VM}X=\"{number}\"\n'''"
        for number in range(count)
    )


class Watch:
    """Counts parsed texts, and those parsed inside of a writing transaction."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.parsed = self.while_writing = 0
        self._writing = False
        for module, name in ((vm_template_text, "parse"), (template_reader, "read_stored")):
            patch.setattr(module, name, self._counted(getattr(module, name)))
        for module, name in ((manager, "review_platforms"), (tenant_orders, "submit")):
            patch.setattr(module, name, self._written(getattr(module, name)))

    def _counted(self, parse: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*given: Any) -> Any:
            self.parsed += 1
            self.while_writing += self._writing
            return parse(*given)

        return counted

    def _written(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def written(*given: Any, **named: Any) -> Any:
            self._writing = True
            try:
                return work(*given, **named)
            finally:
                self._writing = False

        return written


@pytest.fixture
def site() -> Iterator[Site]:
    """Yield a site that has parsed nothing."""
    _forget()
    made = Site()
    yield made
    made.close()


def _forget() -> None:
    for kept in (vm_template_text._parsed, vm_template_text._facts, template_reader._parsed):
        kept.cache_clear()


def test_a_period_parses_no_text_of_a_submitted_platform(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds also after the large parsed texts were dropped."""
    for _ in range(3):
        site.submit(cluster=clusters(4), start=WAITS)
    site.periods(2)
    vm_template_text._parsed.cache_clear()
    watch = Watch(monkeypatch)
    site.periods(2)
    assert watch.parsed == 0


def test_no_text_is_parsed_in_a_writing_transaction(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds for a submission and for a daemon's first period."""
    watch = Watch(monkeypatch)
    platform = site.submit(cluster=clusters(4))
    assert watch.parsed >= 4
    assert watch.while_writing == 0
    site.until(platform, "running")
    assert watch.while_writing == 0
    site.start_daemon()
    _forget()
    watch.parsed = 0
    site.periods(2)
    assert watch.parsed == 5
    assert watch.while_writing == 0


def test_cached_templates_count_by_their_size() -> None:
    """Large parameters count for more, and no texts of VMs are kept."""
    text = template()
    assert all(cluster.template is None for cluster in template_reader.parsed(text).clusters)
    template_reader._parsed.cache_clear()
    template_reader.parsed(text)
    small = template_reader._parsed.bytes
    many = "[" + "[]," * 9_000 + "]"
    template_reader.parsed(
        template(controller=f'[controller]\nkind = "notes"\nparameters = {{ a = {many} }}')
    )
    assert template_reader._parsed.bytes - small > 9_000 * 56
