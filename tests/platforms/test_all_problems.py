"""All problems of a template are reported at once: of its values, and with this site."""

import pytest

from merkatd.fleets.vm_template_text import TemplateError
from merkatd.platforms.lifecycle.template_checks import SiteOffer, check_template
from merkatd.protocol.platform_messages import Kinds
from tests.platforms.site import template

OFFER = SiteOffer(
    kinds=Kinds(controllers=("deadline", "patient"), monitors=()),
    markets=["day"],
    order_markets=[],
    goods=["cpu", "memory"],
    now_s=0.0,
)


def problems(text: str) -> tuple[str, ...]:
    """Return all problems of a text."""
    with pytest.raises(TemplateError) as error:
        check_template(text, OFFER)
    return error.value.problems


def test_a_wrong_value_hides_no_unknown_kind() -> None:
    """The reader finds the budget, the site the kind and the market."""
    text = template(controller='[controller]\nkind = "sunshine"').replace(
        "credits = ", "credits = -"
    )
    found = problems('market = "night"\n' + text)
    assert [problem.split()[0] for problem in found] == [
        "budget.credits", "controller.kind", "market",
    ]  # fmt: skip


def test_a_wrong_value_is_reported_once() -> None:
    """A wrong deadline is not reported as a missing one, too."""
    text = template(controller='[controller]\nkind = "patient"', slo='[slo]\ndeadline = "soon"')
    assert sum(problem.startswith("slo.deadline") for problem in problems(text)) == 1
