"""A group's template text is parsed once, and never inside of a writing transaction."""

from typing import Any

import pytest

from merkatd.fleets import vm_template_text
from merkatd.groups import group_keeper, group_orders
from tests.groups.site import Site


def test_no_text_is_parsed_in_a_writing_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds for the creation of a group and for a daemon's first period."""
    parsed: list[bool] = []
    writing = [False]
    parse, tend, create = (
        getattr(module, name)
        for module, name in (
            (vm_template_text, "parse"),
            (group_keeper, "review_groups"),
            (group_orders, "create"),
        )
    )

    def counted(*given: Any) -> Any:
        parsed.append(writing[0])
        return parse(*given)

    def written(work: Any) -> Any:
        def done(*given: Any, **named: Any) -> Any:
            writing[0] = True
            try:
                return work(*given, **named)
            finally:
                writing[0] = False

        return done

    def forget() -> None:
        for kept in (vm_template_text._parsed, vm_template_text._facts):
            kept.cache_clear()

    monkeypatch.setattr(vm_template_text, "parse", counted)
    monkeypatch.setattr(group_keeper, "review_groups", written(tend))
    monkeypatch.setattr(group_orders, "create", written(create))
    forget()
    site = Site()
    try:
        group = site.create(1.0, 3)
        site.period()
        assert len(site.members(group)) == 3
        assert parsed == [False]
        site.start_daemon()
        forget()
        site.edit(group, nvm=5)
        site.period()
        assert len(site.members(group)) == 5
        assert parsed == [False, False]
    finally:
        site.close()
