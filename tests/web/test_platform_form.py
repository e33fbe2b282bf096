"""The form of a platform and its TOML text are views of one template, with the same problems."""

import json
import re
import time
import tomllib
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.platforms.lifecycle.template_reader import read_template
from merkatd.web.layout.platform_fields import (
    EXAMPLE,
    GROUPS,
    NAMES,
    by_field,
    read_vm,
    size_problems,
    template_of,
    values_of,
)
from tests.api.xmlrpc.site import BOB
from tests.web.browser import Answer, Browser
from tests.web.site import PageSite

BAD = {
    **EXAMPLE, "name": "two words", "credits": "much", "deadline": "soon", "initial": "-1",
    "cpu": "x", "memory": "", "controller": "sunshine",
}  # fmt: skip
BAD_FIELDS = {"name", "credits", "deadline", "initial", "cpu", "memory", "controller"}
texts = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from("\"'\\\n\r#[]=\x7f"), max_size=12
)
numbers = st.integers(0, 10**9).map(str) | st.floats(0.001, 1e9).map(lambda value: f"{value:.4f}")


def wrong_fields(answer: Answer) -> set[str]:
    """Return the names of the fields that a page marks as wrong."""
    marked = re.findall(r'<(?:input|select|textarea)[^>]* aria-invalid="true"[^>]*>', answer.text)
    return {name for tag in marked for name in re.findall(r' name="([^"]*)"', tag)}


def form(values: dict[str, str]) -> dict[str, str]:
    """Return the fields that the page's form sends."""
    return {"view": "form", **values}


def test_the_example_is_valid() -> None:
    """Each field is in one group of the form."""
    assert read_template(template_of(EXAMPLE)).name == "weather"
    assert sorted(name for _, names in GROUPS for name in names) == sorted(NAMES)


@given(st.dictionaries(st.sampled_from(NAMES), texts))
def test_any_values_make_valid_toml(values: dict[str, str]) -> None:
    """So each problem is one with a value, at its key."""
    text = template_of(values)
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise AssertionError(text) from error


@given(
    st.fixed_dictionaries(
        dict.fromkeys(("name", "controller", "deadline", "cluster", "log"), texts)
        | dict.fromkeys(("steps", "credits", "initial", "least", "most"), numbers)
        | {name: st.integers(1, 99).map(str) for name in ("cpu", "vcpu", "memory")}
    )
)
def test_the_form_shows_what_the_text_says(values: dict[str, str]) -> None:
    """A template goes to the text and back without a change."""
    given_values = {**dict.fromkeys(NAMES, ""), **values}
    shown, other = values_of(template_of(given_values))
    assert other == []
    for name, value in given_values.items():
        if name in {"steps", "credits", "initial", "least", "most"}:
            assert float(shown[name]) == float(value), name
        else:
            assert shown[name] == value, name


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ("[start]\nnot_before = 2030-01-01T00:00:00Z", "start.not_before"),
        ('[[cluster]]\nname = "b"', "cluster[2].name"),
        ("[cluster.floor]\ncpu = 1", "cluster[1].floor.cpu"),
        ('[cluster.monitor]\nkind = "queue"', "cluster[1].monitor.kind"),
        ("[job]\n", "job"),
    ],
)
def test_keys_without_a_field_are_named(more: str, key: str) -> None:
    """The form would lose them."""
    _, other = values_of(f"{template_of(EXAMPLE)}\n{more}\n")
    assert key in other


@pytest.mark.parametrize("line", ["CPU={}\\", "CPU{}\\", 'CPU="{}\\', "{}=CPU\\"])
def test_a_line_of_blanks_takes_no_time(line: str) -> None:
    """The daemon reads it for every tenant: 1,200 blanks took eight seconds."""
    begin_s = time.process_time()
    read_vm(line.format(" " * 20_000), dict(EXAMPLE))
    assert time.process_time() - begin_s < 0.1


def test_a_size_may_have_blanks_and_quotes_around_it() -> None:
    """As OpenNebula's templates may have them."""
    values = dict.fromkeys(EXAMPLE, "")
    assert read_vm('  CPU = "1.5"  \nVCPU=2\n\tMEMORY =" 512 "', values) == []
    assert (values["cpu"], values["vcpu"], values["memory"]) == ("1.5", "2", " 512 ")
    assert len(read_vm('CPU="1"\ncpu=1\nCPU\nMEMORY="1\\2"\nDISK="2"', dict(values))) == 5


def test_lines_of_a_vm_template_without_a_field_are_named() -> None:
    """A disk, for example."""
    text = template_of(EXAMPLE).replace('MEMORY = "512"', 'MEMORY = "512"\nDISK = [ IMAGE = "x" ]')
    assert values_of(text)[1] == ['cluster[1].template: DISK = [ IMAGE = "x" ]']


def test_a_problem_is_beside_the_field_of_its_key() -> None:
    """Others are shown above the form."""
    problems = [
        "budget.credits = 'much': must be a number", "budget: is missing; expected a table",
        "slo.deadline is missing: kind `patient` needs a deadline",
        "cluster[1].template = 'CPU': expected one memory size",
        "cluster[1].floor: too much",
    ]  # fmt: skip
    wrong = by_field(problems, {**EXAMPLE, "credits": "much"})
    assert wrong == {
        "credits": "Must be a number (got 'much').\nIs missing; expected a table (got 'much').",
        "deadline": problems[2],
        "memory": "Expected one memory size (got '512').",
        "": "cluster[1].floor: too much",
    }
    assert size_problems({**EXAMPLE, "template_name": "debian", "cpu": "x"}) == {}


class TestViews:
    def test_all_problems_are_shown_at_once(self, site: PageSite) -> None:
        """In the form each beside its field, in the text all of them above it."""
        bob = site.browser(BOB)
        answer = bob.post("/platforms/quote", **form(BAD))
        assert answer.status == 422
        assert wrong_fields(answer) == BAD_FIELDS
        assert 'value="two words"' in answer.text
        text = bob.post("/platforms/quote", template=template_of(BAD))
        assert text.status == 422
        said = re.search(r'id="wrong-template"[^>]*>([^<]*)</p>', text.text)
        assert said is not None
        lines = unescape(said[1]).splitlines()
        assert {line.split()[0] for line in lines} == {
            "name", "budget.credits", "slo.deadline", "cluster[1].initial",
            "cluster[1].template", "controller.kind",
        }  # fmt: skip

    def test_a_script_reads_the_same_problems(self, site: PageSite) -> None:
        """It checks while the visitor types, and nothing is stored."""
        bob = site.browser(BOB)
        listed = site.order("platforms", tenant="bob")
        for values in (BAD, EXAMPLE):
            answer = bob.post("/platforms/check", **form(values))
            assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")
            wrong = json.loads(answer.text)["wrong"]
            assert set(wrong) == (BAD_FIELDS if values is BAD else set())
        text = json.loads(bob.post("/platforms/check", template="name = ").text)
        assert "invalid TOML" in text["wrong"]["template"]
        assert site.order("platforms", tenant="bob") == listed

    def test_the_views_switch_without_a_loss(self, site: PageSite) -> None:
        """Also with problems; a text that the form can't show stays a text."""
        bob = site.browser(BOB)
        values = {**EXAMPLE, "name": "wind", "credits": "much"}
        text = template_in(bob.post("/platforms/view", to="toml", **form(values)))
        assert text == template_of(values)
        back = bob.post("/platforms/view", to="form", template=text)
        assert 'value="wind"' in back.text
        assert wrong_fields(back) == {"credits"}
        more = text + "\n[start]\nnot_before = 2030-01-01T00:00:00Z\n"
        kept = bob.post("/platforms/view", to="form", template=more)
        assert template_in(kept) == more
        assert "The form has no fields for start.not_before" in kept.text

    def test_the_form_offers_the_sites_controllers(self, site: PageSite) -> None:
        """With a few words about each, and its own field for the goal."""
        page = site.browser(BOB).get("/platforms/new").text
        select = re.search(r'<select id="field-controller".*?</select>', page)
        assert select is not None
        kinds = re.findall(r'<option value="(\w+)"', select[0])
        assert kinds[0] == "none"
        assert {"deadline", "best_effort", "patient"} <= set(kinds)
        assert "the sooner the better" in select[0]

    def test_the_form_submits_a_platform(self, site: PageSite) -> None:
        """After its quote, from which the visitor may go back to the form."""
        site.opennebula(site.admin, "one.user.allocate", "former", "pass-word", "core")
        bob = site.browser("former:pass-word")
        values = {**EXAMPLE, "name": "formed", "initial": "1", "least": "1", "memory": "128"}
        quote = bob.post("/platforms/quote", **form(values))
        assert quote.status == 200
        fields = hidden_fields(quote)
        again = bob.post("/platforms/view", to="form", **fields)
        assert 'value="formed"' in again.text
        place = bob.post("/platforms/submit", **fields).place
        number = int(place.removeprefix("/platforms/"))
        assert site.order("platform", platform=number)["name"] == "formed"
        assert "Platform formed is submitted." in bob.get(place).text
        bob.post(f"{place}/stop")


def template_in(answer: Answer) -> str:
    """Return the text in the page's TOML view."""
    found = re.search(r"<textarea[^>]*>\n(.*?)</textarea>", answer.text, re.DOTALL)
    assert found is not None, answer.text
    return unescape(found[1])


def hidden_fields(answer: Answer) -> dict[str, str]:
    """Return the hidden fields of the forms in a page."""
    main = answer.text.partition("<main")[2]
    pairs = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', main)
    return {name: unescape(value) for name, value in pairs if name != "form"}


def test_the_page_of_a_form_receives_no_updates(site: PageSite) -> None:
    """Its address has no page to fetch; other pages receive them."""
    bob: Browser = site.browser(BOB)
    answer = bob.post("/platforms/quote", **form(EXAMPLE))
    assert "data-answer" in answer.text
    assert "data-answer" not in bob.get("/platforms/new").text


@pytest.mark.parametrize(
    ("line", "cpu"),
    [
        ('CPU = "1"', "1"),
        ('  CPU="0.5"  ', "0.5"),
        ("CPU=2", "2"),
        ('CPU = " 2 "', " 2 "),
        ('CPU = ""', ""),
        ('CPU = "1" # two', None),
        ('CPU = "a"b"', None),
        ('CPU = "\\\\"', None),
        ("cpu = 1", None),
        ("CPU 1", None),
    ],
)
def test_the_form_reads_lines_of_vm_templates(line: str, cpu: str | None) -> None:
    """A line that the form can't show as a field is named, so that nothing is lost."""
    values, other = values_of(f"[[cluster]]\ntemplate = '''\n{line}\n'''\n")
    if cpu is None:
        assert other == [f"cluster[1].template: {line}"]
    else:
        assert (values["cpu"], other) == (cpu, [])
