"""VM templates as OpenNebula reads them: user attributes, objects and restrictions."""

import asyncio
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import given

from merkatd.fleets.vm_template_source import vm_template
from merkatd.fleets.vm_template_text import (
    CALLER,
    TemplateError,
    size,
    template_problem,
    with_attributes,
)
from merkatd.opennebula.rpc.errors import LongAnswerError
from merkatd.syntax import parse
from tests.syntax.texts import TEXTS

USER = """<USER><ID>7</ID><GID>1</GID><GNAME>users</GNAME><NAME>ann</NAME><TEMPLATE>
<SSH_PUBLIC_KEY>ssh-ed25519 AAAA "ann"</SSH_PUBLIC_KEY><SLY>$USER[TEMPLATE]</SLY><OPEN>x\\</OPEN>
</TEMPLATE></USER>"""
CONTEXT = 'CONTEXT=[NETWORK="YES",SSH_PUBLIC_KEY="$USER[SSH_PUBLIC_KEY]"]\n'
SIZE = 'CPU="1"\nMEMORY="64"\n'


class Source:
    """A template with a text of its own."""

    template_id = template_name = None

    def __init__(self, template: str) -> None:
        self.template = template


async def ask(method: str, *arguments: Any) -> str:
    """Answer as an OpenNebula that knows only the user."""
    assert (method, arguments) == ("one.user.info", (-1,))
    return USER


def done(coroutine: Coroutine[Any, Any, str]) -> str:
    """Return the result of a coroutine."""
    return asyncio.run(coroutine)


def read(text: str) -> str:
    """Return the stored text of a tenant's text."""
    return done(vm_template("", Source(text), ask, admin=False))


class TestUser:
    def test_user_variables_are_the_tenants(self) -> None:
        """They are not those of the creating account, and quotes stay inside of their quotes."""
        text = read(CONTEXT + 'X="$UNAME $UID $GNAME$GID $UIDX $USER[NOTHING]"')
        assert 'SSH_PUBLIC_KEY="ssh-ed25519 AAAA \\"ann\\""' in text
        assert 'X="ann 7 users1 $UIDX "' in text

    def test_no_value_breaks_its_quotes(self) -> None:
        """A value that ends with a backslash would otherwise include the following text."""
        text = read(SIZE + 'A="$USER[OPEN]"\nB="1"\n')
        assert parse(text).get("B") == "1"

    @pytest.mark.parametrize(
        "text",
        [
            "$\nUSER[SSH_PUBLIC_KEY]",
            "$USER\n[X]",
            "$USER[\nX]",
            "$USER[TEMPLATE]",
            "$USER[ TEMPLATE ]",
            "$USER[SLY]",
            "$USER[A,B=1]",
            "$user[A, B]",
        ],
    )
    def test_nothing_of_another_user_is_inserted(self, text: str) -> None:
        """Neither a whole template nor nested variables can be inserted."""
        with pytest.raises(TemplateError, match=r"expected \$USER\[NAME\]"):
            read(f'CONTEXT=[X="{text}"]')

    @pytest.mark.parametrize(
        ("attribute", "times", "match"),
        [(8193, 1, "at most 8192 characters"), (8000, 5, "more than 32768 characters")],
    )
    def test_a_template_never_exceeds_its_limit(
        self, attribute: int, times: int, match: str
    ) -> None:
        """A short text could insert a long attribute many times."""

        async def of_a_large_user(_method: str, *_arguments: Any) -> str:
            return f"<USER><TEMPLATE><A>{'x' * attribute}</A></TEMPLATE></USER>"

        text = SIZE + f'B="{"$USER[A]" * times}"\n'
        with pytest.raises(TemplateError, match=match):
            done(vm_template("", Source(text), of_a_large_user, admin=False))

    def test_a_template_of_opennebula_is_limited_too(self) -> None:
        """It may be of any length there, and a platform stores its text."""

        async def shown(method: str, *_arguments: Any) -> str:
            assert method == "one.template.info"
            return f"<VMTEMPLATE><TEMPLATE><A>{'x' * 33_000}</A></TEMPLATE></VMTEMPLATE>"

        source = Source("")
        source.template, source.template_id = None, 1  # type: ignore[assignment]
        with pytest.raises(TemplateError, match="at most 32768"):
            done(vm_template("", source, shown, admin=False))

    @pytest.mark.parametrize(
        ("owners", "owner", "expected"),
        [((7, 7, 7), CALLER, None), ((8, 7, 9), CALLER, None), ((8, 8, 7), CALLER, "6"),
         ((9, 8, 7), 9, "4"), ((0, 7, 9), CALLER, "4"), ((9, 7, 0), 8, "6")],
    )  # fmt: skip
    def test_a_template_is_found_by_a_unique_name(
        self, owners: Sequence[int], owner: int, expected: str | None
    ) -> None:
        """The owner's own is found before oneadmin's, and that before others'.

        No user can block names with a template that all may use, however long.
        """
        names = ["web", "db", "web"]

        async def shown(method: str, *arguments: Any) -> str:
            if method == "one.templatepool.info":
                whose, mine = arguments[0], 7
                if whose == -2 and expected is not None and source.template_name == "web":
                    raise LongAnswerError(method, "", 1 << 20, "")
                rows = (
                    f"<ID>{4 + at}</ID><UID>{owners[at]}</UID><NAME>{name}</NAME>"
                    for at, name in enumerate(names)
                    if whose in {-2, owners[at]} or (whose == -3 and owners[at] == mine)
                )
                inside = "".join(f"<VMTEMPLATE>{row}</VMTEMPLATE>" for row in rows)
                return f"<VMTEMPLATE_POOL>{inside}</VMTEMPLATE_POOL>"
            assert method == "one.template.info"
            return f"<VMTEMPLATE><TEMPLATE><A>{arguments[0]}</A></TEMPLATE></VMTEMPLATE>"

        source = Source("")
        source.template, source.template_name = None, "db"  # type: ignore[assignment]
        read_it = partial(vm_template, "", source, shown, admin=False, owner=owner)
        assert parse(done(read_it())).get("A") == "5"
        source.template_name = "web"  # type: ignore[assignment]
        if expected is not None:
            assert parse(done(read_it())).get("A") == expected
            return
        with pytest.raises(TemplateError, match="2 templates are named 'web', expected 1"):
            done(read_it())

    def test_a_template_without_user_variables_needs_no_user(self) -> None:
        """It saves a call."""

        async def unexpected(*_: Any) -> str:
            raise AssertionError

        assert parse(done(vm_template("", Source(SIZE), unexpected, admin=False))) == parse(SIZE)


class TestNetworks:
    def test_a_context_names_no_network(self) -> None:
        """Almost every context has NETWORK="YES", which is accepted."""
        assert 'NETWORK="YES"' in read(SIZE + CONTEXT)

    @pytest.mark.parametrize(
        "text",
        [
            'NIC=[NETWORK="secret"]\n',
            'NIC\n=[NETWORK # x\n="secret"]\n',
            'CONTEXT=[A="b"]\nNIC=[NETWORK="secret"]\n',
            '# CONTEXT=[\nNIC=[NETWORK="secret"]\n',
            'A="\nCONTEXT=[B="\nNIC=[NETWORK="secret"]\n',
            'CONTEXT = [ A="[" ] NIC = [ NETWORK = "secret" ]',
            'A="1" % NIC=[NETWORK="secret"]',
        ],
    )
    def test_a_network_name_is_always_found(self, text: str) -> None:
        """No notation hides it."""
        with pytest.raises(TemplateError, match="use IMAGE_ID and NETWORK_ID"):
            read(SIZE + text)

    @pytest.mark.parametrize("written", [" 12", "+12", "0000000000012", "12 ", "1e1", "", "-1"])
    def test_an_id_has_one_notation(self, written: str) -> None:
        """OpenNebula reads some other notations as the same number."""
        for name in ("DISK=[IMAGE_ID", "NIC=[NETWORK_ID", 'VMGROUP=[ROLE="a",VMGROUP_ID'):
            with pytest.raises(TemplateError, match="must be a whole number"):
                read(f'{SIZE}{name}="{written}"]')

    def test_access_to_every_named_object_is_checked(self) -> None:
        """Calls are in the tenant's name, for VM groups too."""
        asked = []

        async def note(method: str, *arguments: Any) -> str:
            asked.append((method, arguments[0]))
            return ""

        text = f"{SIZE}DISK=[IMAGE_ID=3] NIC=[NETWORK_ID=4] VMGROUP=[VMGROUP_ID=5]"
        done(vm_template("", Source(text), note, admin=False))
        assert asked == [("one.image.info", 3), ("one.vmgroup.info", 5), ("one.vn.info", 4)]


class TestRestricted:
    @pytest.mark.parametrize(
        ("text", "named"),
        [
            ('CONTEXT=[FILES="/x"]', "FILES"),
            ('RAW\n=[DATA="x"]', "RAW"),
            ('RAW # x\n =[DATA="x"]', "RAW"),
            ('A="x" RAW=[DATA="x"]', "RAW"),
            ('! RAW=[DATA="x"]', "RAW"),
            ('DISK=[SIZE=1,SOURCE="/x"]', "SOURCE"),
            ('VMGROUP=[VMGROUP_NAME="x"]', "VMGROUP_NAME"),
        ],
    )
    def test_restricted_attributes_are_found_in_any_notation(self, text: str, named: str) -> None:
        """They are rejected at once, as OpenNebula would reject the owner's."""
        with pytest.raises(TemplateError, match=f"{named} is for administrators"):
            read(SIZE + text)

    @given(TEXTS)
    def test_a_stored_text_has_one_reading(self, text: str) -> None:
        """It means the same as the original, with or without further attributes after it."""
        try:
            stored = done(vm_template("", Source(text), ask, admin=True))
        except TemplateError:
            return
        assert parse(stored) == parse(text)
        more = parse(with_attributes(stored, {"MERKAT_PLATFORM": "7"}))
        assert more == parse(stored).plus([("MERKAT_PLATFORM", "7")])


class TestText:
    @pytest.mark.parametrize(
        "text", ['A="x" MERKAT_MANAGED="NO"', "merkat_min_cpu\n=1", "A=1 % MERKAT=[BID_CPU=9]"]
    )
    def test_merkats_attributes_are_found_anywhere(self, text: str) -> None:
        """They may share a line, span lines, or follow text that OpenNebula skips."""
        assert "MERKAT" in (template_problem(SIZE + text) or "")

    def test_a_template_reports_all_its_problems(self) -> None:
        """Attributes of Merkat, sizes that are missing, and sizes that are wrong, in one line."""
        problem = template_problem('VCPU=0 MERKAT_FLOOR="1" MERKAT_MARKET="x"') or ""
        assert problem.split("; ") == [
            (
                "MERKAT_FLOOR, MERKAT_MARKET are not accepted: give floor, ceiling and market"
                " beside the template"
            ),
            'expected one memory size in MiB, for example MEMORY="1024"',
            "`VCPU` must be above 0 (got 0)",
        ]

    def test_sizes_are_read_like_by_opennebula(self) -> None:
        """Several may be on a line, in any case, with comments in between."""
        text = 'cpu # of a core\n= 0.5 Memory="64" VCPU\t=2'
        assert template_problem(text) is None
        assert size(text) == {"cpu": 200.0, "memory": 64.0}

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("<VM/>", "not XML"),
            ("CPU=1 MEMORY=64 NIC=[", "Parse error"),
            ("CPU=1 MEMORY=64 MEMORY=1", "MEMORY"),
            ("CPU=1 MEMORY=6e9", "MEMORY"),
            ("CPU=1 MEMORY=0", "`MEMORY` must be above 0 (got 0)"),
            ("CPU=0.0 VCPU=1 MEMORY=64", "`CPU` must be above 0 (got 0.0)"),
            ("CPU=1 VCPU=0 MEMORY=64", "`VCPU` must be above 0 (got 0)"),
            ("CPU=1 MEMORY=64 " + "A=1 " * 1000, "more than 1000 values"),
            ('CPU=1 MEMORY=64 A="x y\\"', "backslash"),
        ],
    )
    def test_invalid_templates_have_a_reason(self, text: str, why: str) -> None:
        """The message says why the template is rejected."""
        assert why in (template_problem(text) or "")
