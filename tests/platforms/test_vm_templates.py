"""VM templates as OpenNebula reads them: whose attributes they may speak of, and which networks."""

import asyncio
import re
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.embedded.template import parse
from merkatd.platforms.attributes import attributes
from merkatd.platforms.inventory import vm_template
from merkatd.platforms.template import TemplateError
from merkatd.platforms.variables import with_own

USER = """<USER><ID>7</ID><GID>1</GID><GNAME>users</GNAME><NAME>ann</NAME><TEMPLATE>
<SSH_PUBLIC_KEY>ssh-ed25519 AAAA "ann"</SSH_PUBLIC_KEY><SLY>$USER[TEMPLATE]</SLY><OPEN>x\\</OPEN>
</TEMPLATE></USER>"""
CONTEXT = 'CONTEXT=[NETWORK="YES",SSH_PUBLIC_KEY="$USER[SSH_PUBLIC_KEY]"]\n'
SIZE = 'CPU="1"\nMEMORY="64"\n'


class Source:
    """A template's own text."""

    template_id = template_name = None

    def __init__(self, template: str) -> None:
        self.template = template


async def ask(method: str, *arguments: Any) -> str:
    """OpenNebula, which knows the user alone."""
    assert (method, arguments) == ("one.user.info", (-1,))
    return USER


def done(coroutine: Coroutine[Any, Any, str]) -> str:
    """What it returns."""
    return asyncio.run(coroutine)


class TestAttributes:
    def test_each_with_its_text(self) -> None:
        """Comments, blanks, vectors over lines, values with and without quotes, none at all."""
        text = (
            '# all\nCPU = 1 MEMORY="64"\nNIC=[ NETWORK_ID=0,\n MODEL = "a]b" ]\nempty=\n  # end\n'
        )
        assert attributes(text) == [
            ("CPU", "CPU = 1"),
            ("MEMORY", 'MEMORY="64"'),
            ("NIC", 'NIC=[ NETWORK_ID=0,\n MODEL = "a]b" ]'),
            ("EMPTY", "empty="),
        ]

    @pytest.mark.parametrize(
        "text",
        [
            'A="b',
            'A="b\\"',
            "A=b # c\n",
            'A=b"c\n',
            "A=[B=[C=1]]",
            "A",
            'A="1"B="2"',
            "<VM/>",
        ],
    )
    def test_what_is_not_certain_is_not_known(self, text: str) -> None:
        """Where readers could differ, who asks must take it for anything."""
        assert attributes(text) is None

    def test_a_quote_behind_two_backslashes_is_escaped(self) -> None:
        """As in OpenNebula, whose strings end at the first quote without a backslash before it."""
        text = 'A="x\\\\"\nCONTEXT=[B="\nNIC=[NETWORK=\\"secret\\"]"]\n'
        found = attributes(text)
        assert found is None or not any("NIC" in said for name, said in found if name == "CONTEXT")

    @given(st.text('AB=[]", \n#1$', max_size=60))
    def test_it_is_never_read_otherwise(self, text: str) -> None:
        """What is known has the names that a reader of the whole finds, which knows all of it."""
        found = attributes(text)
        if found is None:
            return
        some = {name for name, said in found if not re.search(r"=\s*\[\s*\]$", said)}
        assert {name.removeprefix("ONE_") for name in parse(text).names()} == some


class TestUser:
    def test_what_is_said_of_the_user_is_the_tenants(self) -> None:
        """Not the account's that makes the VM; quotes stay inside their quotes."""
        said = done(with_own("", CONTEXT + 'X="$UNAME $UID $GNAME$GID $UIDX $USER[NOTHING]"', ask))
        assert 'SSH_PUBLIC_KEY="ssh-ed25519 AAAA \\"ann\\""' in said
        assert 'X="ann 7 users1 $UIDX "' in said

    def test_no_value_opens_its_quotes(self) -> None:
        """One that ends with a backslash would swallow what comes behind it."""
        said = done(with_own("", SIZE + 'A="$USER[OPEN]"\nB="1"\n', ask))
        assert parse(said).get("B") == "1"

    @pytest.mark.parametrize(
        "text",
        ["$USER[TEMPLATE]", "$USER[ TEMPLATE ]", "$USER[SLY]", "$USER[A,B=1]", "$user[A, B]"],
    )
    def test_nothing_of_another_user_is_ever_said(self, text: str) -> None:
        """Not all that there is of one, and nothing that comes in by the back door."""
        with pytest.raises(TemplateError, match="is right"):
            done(with_own("", f'CONTEXT=[X="{text}"]', ask))

    def test_who_says_nothing_of_users_is_not_looked_up(self) -> None:
        """A call less."""

        async def nobody(*_: Any) -> str:
            raise AssertionError

        assert done(with_own("", SIZE, nobody)) == SIZE


class TestNetworks:
    def test_a_context_names_none(self) -> None:
        """Though nearly every one says NETWORK="YES"."""
        lines = done(vm_template("", Source(SIZE + CONTEXT), ask, admin=False))
        assert 'NETWORK="YES"' in lines

    @pytest.mark.parametrize(
        "text",
        [
            'NIC=[NETWORK="secret"]\n',
            'CONTEXT=[A="b"]\nNIC=[NETWORK="secret"]\n',
            '# CONTEXT=[\nNIC=[NETWORK="secret"]\n',
            'A="\nCONTEXT=[B="\nNIC=[NETWORK="secret"]\n',
            'A="x\\\\"\nCONTEXT=[B="\nNIC=[NETWORK="secret"]\n"]\n',
            'CONTEXT=[A=b"c]\nNIC=[NETWORK="secret"]\nD="]"',
            'CONTEXT = [ A="[" ] NIC = [ NETWORK = "secret" ]',
        ],
    )
    def test_nothing_hides_one(self, text: str) -> None:
        """Whatever is written around it."""
        with pytest.raises(TemplateError, match="by IMAGE_ID and NETWORK_ID"):
            done(vm_template("", Source(SIZE + text), ask, admin=False))

    def test_files_of_the_front_end_are_restricted_in_a_context_too(self) -> None:
        """They would be read with the front end's rights."""
        with pytest.raises(TemplateError, match="FILES is for administrators"):
            done(vm_template("", Source(SIZE + 'CONTEXT=[FILES="/x"]'), ask, admin=False))
