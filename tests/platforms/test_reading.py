"""Templates: valid ones are read, and errors name the accepted values."""

import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.base.toml_reader import MOST_PROBLEMS
from merkatd.fleets.vm_template_text import TemplateError, size
from merkatd.platforms.declarations.application_terms import (
    JobTerms,
    ReplicatedTerms,
    ServiceTerms,
)
from merkatd.platforms.declarations.template_time import TemplateTime
from merkatd.platforms.lifecycle.template_reader import (
    MAX_TEMPLATE_LENGTH,
    MAX_WHOLE_NUMBER,
    read_stored,
    read_template,
)
from merkatd.platforms.rules.lifecycle_events import BudgetPolicy
from tests.lengths import shorten
from tests.platforms.site import VM, template

ROOT = Path(__file__).parents[2]


def error_of(text: str) -> str:
    """Return the error of an invalid template."""
    with pytest.raises(TemplateError) as caught:
        read_template(text)
    return str(caught.value)


def test_all_keys_are_read() -> None:
    """Each key has its effect."""
    parsed = read_template(
        template(
            top='name = "weather"\nover_budget = "go on"\nmarket = "night"\ngrace = "2m"',
            controller='[controller]\nkind = "deadline"\nparameters = { steps = 3, b = [1.5] }',
            budget="[budget]\ncredits = 5\nreplenishment = 0.5",
            slo='[slo]\ndeadline = 2026-05-01T09:00:00Z\nideal_run = "90m"\nperformance = 2\n'
            "give_up = false",
            start='[start]\nnot_before = "1h"\nlatest = "2h"\n[start.price_ceiling]\ncpu = 0.5',
        )
    )
    assert (parsed.over_budget, parsed.market, parsed.grace_s) == (
        BudgetPolicy.GO_ON,
        "night",
        120.0,
    )
    assert parsed.parameters == {"steps": 3, "b": [1.5]}
    assert (parsed.budget.credits, parsed.budget.replenishment) == (5.0, 0.5)
    assert parsed.goal.deadline == TemplateTime(at_s=1_777_626_000.0)
    assert (parsed.goal.ideal_s, parsed.goal.performance, parsed.goal.give_up) == (
        5400.0,
        2.0,
        False,
    )
    assert parsed.start.not_before == TemplateTime(after_s=3600.0)
    assert parsed.start.price_ceiling == {"cpu": 0.5}
    assert [(cluster.least, cluster.initial, cluster.most) for cluster in parsed.clusters] == [
        (1, 2, 4)
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"top": 'name = "a"\nover_bugdet = "stop"'}, "did you mean 'over_budget'?"),
        ({"top": 'name = "a"\nover_budget = "stopp"'}, "did you mean 'stop'?"),
        ({"top": 'nane = "a"'}, "did you mean 'name'?"),
        ({"top": 'name = "a b"'}, "name = 'a b'"),
        ({"controller": ""}, "controller.kind: is missing"),
        ({"controller": '[controller]\nkind = "x"\nparametres = {}'}, "did you mean 'parameters'?"),
        ({"controller": '[controller]\nkind = "x"\nparameters = { a = nan }'}, "finite numbers"),
        ({"budget": ""}, "budget: is missing"),
        ({"budget": "[budget]\ncredits = -1"}, "a number from 0"),
        ({"budget": "[budget]\ncredits = nan"}, "a number from 0"),
        ({"budget": "[budget]\ncredits = true"}, "a number from 0"),
        ({"budget": "[budget]\ncredits = 1e15"}, "must be a number from 0 to 4000000000000"),
        (
            {"budget": "[budget]\ncredits = 1\nreplenishment = 1e15"},
            "must be a number from 0 to 4000000000000",
        ),
        ({"budget": "", "top": 'name = "a"\nbudget = 5'}, "budget: must be a table"),
        ({"slo": '[slo]\ndeadline = "soon"'}, "a time after the submission"),
        ({"slo": "[slo]\ndeadline = 2026-05-01T09:00:00"}, "must have a time zone"),
        ({"slo": '[slo]\nideal_run = "0s"'}, "must be above 0"),
        ({"start": "[start.price_ceiling]\ncpus = 1"}, "did you mean 'cpu'?"),
        ({"cluster": ""}, "1 to 16 tables"),
        (
            {"cluster": "", "top": 'name = "a"\ncluster = 3'},
            "must be an array of tables, written as [[cluster]]",
        ),
        ({"cluster": '[[cluster]]\nname = "a"'}, "one of template, template_id"),
        (
            {"cluster": '[[cluster]]\nname = "a"\ntemplate_id = 1\nleast = 3\ninitial = 2'},
            "from least (3) to most",
        ),
        (
            {"cluster": '[[cluster]]\nname = "a"\ntemplate = "CPU=1\\nMEMORY=1\\nMERKAT_KEY=x"'},
            "MERKAT_KEY is not accepted",
        ),
        ({"cluster": '[[cluster]]\nname = "a"\ntemplate = "CPU=1"'}, "MEMORY"),
        ({"cluster": '[[cluster]]\nname = "a"\ntemplate = "<VM/>"'}, "not XML"),
        (
            {
                "cluster": '[[cluster]]\nname = "a"\ntemplate_id = 1\n'
                "floor = { cpu = 9 }\nceiling = { cpu = 8 }"
            },
            "cpu must be at most its ceiling, 8",
        ),
        ({"top": 'name = "weather'}, "invalid TOML: "),
        ({"top": 'name = "weather"\ngrace = "3601s"'}, "must be at most an hour"),
    ],
)
def test_errors_name_the_accepted_values(changes: dict[str, str], message: str) -> None:
    """Each invalid template has its own error text."""
    assert message in error_of(template(**changes))


@pytest.mark.parametrize("digits", [17, 400, 15_000])
@pytest.mark.parametrize("name", ["CPU", "VCPU", "MEMORY"])
def test_an_impossible_vm_size_is_rejected(name: str, digits: int) -> None:
    """The error has the largest possible size."""
    values = {"CPU": "1", "VCPU": "1", "MEMORY": "1"} | {name: "9" * digits}
    lines = "\\n".join(f"{key}={value}" for key, value in values.items())
    message = error_of(template(cluster=f'[[cluster]]\nname = "a"\ntemplate = "{lines}"'))
    assert f"`{name}` must be at most 1e+15 (got '999" in message
    assert len(message) < 300


def test_a_stored_impossible_vm_size_counts_as_none() -> None:
    """A text that an earlier version accepted has a size for computations."""
    many = "9" * 400
    assert size(f"CPU={many}\nMEMORY={many}") == {"cpu": 100.0, "memory": 0.0}
    assert size(f"CPU=1\nVCPU={many}\nMEMORY=64") == {"cpu": 100.0, "memory": 64.0}


def test_all_problems_are_reported_at_once() -> None:
    """One submission shows three problems."""
    message = error_of(template(budget="", controller="", slo="[slo]\ndeadlin = 1"))
    assert message.count("\n") >= 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x" * (MAX_TEMPLATE_LENGTH + 1),
        "a=" + "[" * 5000,
        "\x00",
        "name = ",
        "a.b.c = 1\na.b = 2",
        "é" * 9,
    ],
)
def test_hostile_texts_are_rejected(text: str) -> None:
    """Neither their length nor their depth does any harm."""
    assert error_of(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n" + ".".join("a" * 14) + " = 1", "line 2: a key must have at most 12 parts"),
        ("a = " + "[" * 13 + "]" * 13, "arrays and tables must be nested at most 12 deep"),
        ("a = [" + "1," * 2_001 + "]", "at most 2000 keys and values"),
        ("name = 0x" + "f" * 9_000, "a number of thousands of digits"),
        ('name = "\ud800"', "lone surrogates"),
        ("[controller]\nkind = 'none'\nparameters = { a = 0xfffffffffffffffff }", "whole numbers"),
    ],
)
def test_texts_that_are_too_expensive_to_read_are_rejected(text: str, message: str) -> None:
    """The error has the bound and the line."""
    assert message in error_of(text)


def test_bounds_ignore_the_content_of_strings() -> None:
    """Dots, brackets and signs in strings and comments do not count."""
    many = "a.b[{,=" * 400
    cluster = (
        f'[[cluster]]\nname = "nodes"\ntemplate = """\n{VM}\nA="{many}"\n"""\n# {many}\n'
        f"# \" ' {many}"
    )
    text = template(
        cluster=cluster,
        controller=(
            f"[controller]\nkind = 'notes'\nparameters = {{ a = '{many}', b = \"\\\"{many}\" }}"
        ),
    )
    assert many in (read_template(text).clusters[0].template or "")


@pytest.mark.parametrize(
    ("sizes", "read"),
    [("", (1, 1, 1)), ("initial = 4", (1, 4, 4)), ("initial = 0\nmost = 2", (0, 0, 2))],
)
def test_a_cluster_with_only_an_initial_size_has_defaults(
    sizes: str, read: tuple[int, int, int]
) -> None:
    """It needs one VM, or none if it starts with none, and has at most its initial size."""
    text = template(cluster=f'[[cluster]]\nname = "nodes"\ntemplate_id = 1\n{sizes}')
    (cluster,) = read_template(text).clusters
    assert (cluster.least, cluster.initial, cluster.most) == read


@pytest.mark.parametrize("sign", [1, -1])
def test_parameters_may_be_whole_numbers_up_to_the_largest(sign: int) -> None:
    """Every part of the program can store the largest one."""
    controller = '[controller]\nkind = "none"\nparameters = {{ a = {} }}'
    parsed = read_template(template(controller=controller.format(sign * MAX_WHOLE_NUMBER)))
    assert parsed.parameters == {"a": sign * MAX_WHOLE_NUMBER}
    assert "whole numbers" in error_of(
        template(controller=controller.format(sign * (MAX_WHOLE_NUMBER + 1)))
    )


def test_the_number_of_reported_problems_is_limited() -> None:
    """The search for the closest known key takes time."""
    message = error_of("".join(f"nam{number} = 1\n" for number in range(400)))
    assert len(message.splitlines()) == MOST_PROBLEMS


@settings(max_examples=shorten(150, 50), deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_read_or_rejected(text: str) -> None:
    """This holds at any place in a template."""
    for whole_text in (text, template(slo=text), template(top=f'name = "a"\nmarket = {text!r}')):
        with suppress(TemplateError):
            assert read_template(whole_text).clusters


_VALUES = st.recursive(
    st.one_of(
        st.booleans(),
        st.integers(-5, 5).map(str),
        st.sampled_from(['"x"', '"2h"', "nan", "inf", "1979-05-27T07:32:00Z", "1e300", "{}", "[]"]),
    ),
    lambda inner: st.lists(inner.map(str), max_size=3).map(lambda items: f"[{', '.join(items)}]"),
    max_leaves=4,
).map(lambda value: str(value).lower() if isinstance(value, bool) else str(value))


@settings(max_examples=shorten(150, 50), deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(
            [
                "controller",
                "budget",
                "slo",
                "start",
                "cluster",
                "name",
                "market",
                "grace",
                "over_budget",
                "odd",
            ]
        ),
        _VALUES,
    )
)
def test_any_value_of_any_key_is_read_or_rejected(given_: dict[str, str]) -> None:
    """A wrong type is a `TemplateError`, and never another exception."""
    with pytest.raises(TemplateError):
        read_template("\n".join(f"{key} = {value}" for key, value in given_.items()))


def test_the_size_of_a_vm_is_its_usable_amount() -> None:
    """CPU is VCPU x 100, or CPU rounded up, and memory is in MiB."""
    assert size(VM) == {"cpu": 200.0, "memory": 1024.0}
    assert size('cpu = 0.5\nmemory="64"') == {"cpu": 100.0, "memory": 64.0}


def test_a_stored_vm_template_is_not_checked_again() -> None:
    """A text that an earlier version accepted stays its cluster's text."""
    text = template().replace('MEMORY="1024"', 'MEMORY="0"')
    assert "`MEMORY` must be above 0 (got 0)" in error_of(text)
    assert 'MEMORY="0"' in (read_stored(text).clusters[0].template or "")


def test_the_pages_examples_are_valid() -> None:
    """All whole templates are read unchanged, and use most keys."""
    page = (ROOT / "docs/platforms.md").read_text()
    texts = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    parsed = [read_template(text) for text in texts if "[budget]" in text]
    assert len(parsed) == len(texts) - 1  # the other one shows a monitor alone
    declared = {each.name: type(each.application) for each in parsed if each.application}
    assert declared == {"render": JobTerms, "shop": ServiceTerms, "sensors": ReplicatedTerms}
    others = [each for each in parsed if each.application is None]
    assert [template.name for template in others] == ["weather", "climate", "queue", "spare"]
    assert [len(template.clusters) for template in others] == [1, 1, 2, 1]


@pytest.mark.parametrize(
    ("kind", "slo", "gives_up"),
    [
        ("deadline", "", True),
        ("full_performance", "", True),
        ("partial_deadline", "", False),
        ("partial_deadline", "give_up = true", True),
        ("deadline", "give_up = false", False),
    ],
)
def test_only_work_with_partial_value_is_not_given_up(kind: str, slo: str, gives_up: bool) -> None:
    """This is the default, and a tenant can choose."""
    text = template(controller=f'[controller]\nkind = "{kind}"', slo=f"[slo]\n{slo}")
    assert read_template(text).goal.give_up is gives_up
