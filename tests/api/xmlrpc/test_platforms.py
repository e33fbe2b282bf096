"""Platforms over the tenants' interface: whose they are, and who may do what to them."""

import pytest

from tests.api.xmlrpc.site import ANN, BOB, Site
from tests.api.xmlrpc.test_calls import PLATFORM


class TestRights:
    def test_nobody_touches_anothers_platform(self, site: Site) -> None:
        """Neither to look nor to change; administrators may."""
        mine = site.raw("merkat.platform.submit", ANN, PLATFORM)[1]["id"]
        for verb in ("info", "suspend", "resume", "stop"):
            success, why, code = site.raw(f"merkat.platform.{verb}", BOB, mine)[:3]
            assert (success, code) == (False, 512)
            assert "Not authorized" in why
        change = {"deadline": "6h"}
        assert site.raw("merkat.platform.update", BOB, mine, change)[2] == 512
        assert site.raw("merkat.platform.list", BOB, site.users["ann"])[2] == 512
        assert site.raw("merkat.platform.submit", BOB, PLATFORM, site.users["ann"])[2] == 512
        assert [one["id"] for one in site.raw("merkat.platform.list", BOB)[1]] == []
        assert site.raw("merkat.platform.info", site.admin, mine)[0] is True
        assert site.raw("merkat.platform.stop", site.admin, mine)[1]["state"] == "cancelled"

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            ('RAW=[ TYPE="kvm", DATA="<x/>" ]', "RAW is for administrators"),
            ('DISK=[ IMAGE="secret" ]', "by IMAGE_ID"),
            ('DISK=[ IMAGE_ID="4711" ]', "nodes"),
            ('NIC=[ MAC="02:00:00:00:00:01" ]', "MAC is for administrators"),
        ],
    )
    def test_what_opennebula_would_refuse_its_owner_is_refused(
        self, site: Site, words: str, said: str
    ) -> None:
        """VMs are made by the daemon's account: it must not lend its rights to anybody."""
        text = PLATFORM.replace("CPU=1", f"CPU=1\n{words}")
        success, why, code = site.raw("merkat.platform.submit", ANN, text)[:3]
        assert (success, code) == (False, 4096)
        assert said in why

    def test_wrong_words_are_answered_with_the_right_ones(self, site: Site) -> None:
        """The nearest key, what a deadline is, what can be changed."""
        wrong = PLATFORM.replace("credits", "credit")
        assert "did you mean 'credits'?" in site.raw("merkat.platform.submit", ANN, wrong)[1]
        mine = site.raw("merkat.platform.submit", ANN, PLATFORM)[1]["id"]
        for change, said in (
            ({"deadline": "soon"}, "6h"),
            ({"deadline": 5}, "6h"),
            ({"budget": -1.0}, "a number from 0"),
            ({"owner": 0}, "only deadline, budget"),
            ({}, "a deadline, a budget"),
        ):
            assert said in site.raw("merkat.platform.update", ANN, mine, change)[1]
        assert site.raw("merkat.platform.info", ANN, 999)[2] == 1024
