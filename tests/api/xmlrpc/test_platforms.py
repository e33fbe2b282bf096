"""Platforms over the tenants' interface: their owners and the rights of others."""

import re

import pytest

from merkatd.client import BadCallError, ForbiddenError, MissingError, Platforms
from tests.api.xmlrpc.site import ANN, BOB, Site, until
from tests.api.xmlrpc.test_calls import PLATFORM


class TestRights:
    def test_platforms_of_other_tenants_are_protected(self, site: Site) -> None:
        """Other tenants can neither read nor change them; administrators can."""
        mine = site.raw("merkat.platform.submit", ANN, PLATFORM)[1]["id"]
        for verb in ("info", "suspend", "resume", "stop"):
            success, why, code = site.raw(f"merkat.platform.{verb}", BOB, mine)[:3]
            assert (success, code) == (False, 512)
            assert "Not authorized" in why
        change = {"deadline": "6h"}
        assert site.raw("merkat.platform.update", BOB, mine, change)[2] == 512
        assert site.raw("merkat.platform.list", BOB, site.users["ann"])[2] == 512
        assert site.raw("merkat.platform.submit", BOB, PLATFORM, site.users["ann"])[2] == 512
        assert [platform["id"] for platform in site.raw("merkat.platform.list", BOB)[1]] == []
        assert site.raw("merkat.platform.info", site.admin, mine)[0] is True
        assert site.raw("merkat.platform.stop", site.admin, mine)[1]["state"] == "cancelled"

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ('RAW=[ TYPE="kvm", DATA="<x/>" ]', "RAW is for administrators"),
            ('DISK=[ IMAGE="secret" ]', "use IMAGE_ID"),
            ('DISK=[ IMAGE_ID="4711" ]', "nodes"),
            ('NIC=[ MAC="02:00:00:00:00:01" ]', "MAC is for administrators"),
        ],
    )
    def test_restricted_attributes_of_the_owner_are_refused(
        self, site: Site, words: str, message: str
    ) -> None:
        """The daemon's account creates the VMs, but must not lend its rights."""
        text = PLATFORM.replace("CPU=1", f"CPU=1\n{words}")
        success, why, code = site.raw("merkat.platform.submit", ANN, text)[:3]
        assert (success, code) == (False, 4096)
        assert message in why

    def test_invalid_values_are_answered_with_valid_ones(self, site: Site) -> None:
        """The error names the nearest key, the format of a deadline, and the changeable keys."""
        wrong = PLATFORM.replace("credits", "credit")
        assert "did you mean 'credits'?" in site.raw("merkat.platform.submit", ANN, wrong)[1]
        mine = site.raw("merkat.platform.submit", ANN, PLATFORM)[1]["id"]
        for change, message in (
            ({"deadline": "soon"}, "6h"),
            ({"deadline": 5}, "6h"),
            ({"budget": -1.0}, "a number from 0"),
            ({"owner": 0}, "known: deadline, performance"),
            ({}, "a deadline, a performance"),
        ):
            assert message in site.raw("merkat.platform.update", ANN, mine, change)[1]
        assert site.raw("merkat.platform.info", ANN, 999)[2] == 1024


class TestClient:
    def test_a_platform_passes_from_submission_to_its_end(self, site: Site) -> None:
        """Each verb has a method with a typed answer."""
        with site.merkat() as merkat, site.merkat(BOB) as bobs:
            mine = Platforms(merkat)
            made = mine.submit(PLATFORM)
            assert (made.name, made.owner, made.budget) == ("later", site.users["ann"], 1.0)
            assert made.id in {platform.id for platform in mine.list()}
            new = mine.update(made.id, deadline="40d", performance=2.5, budget=2.0)
            assert new.budget == 2.0
            assert new.deadline_s == pytest.approx(made.submitted_s + 40 * 86_400, abs=600)
            assert (
                next(action.text for action in new.actions if action.what == "update").count(";")
                == 2
            )
            assert mine.suspend(made.id).held
            assert not mine.resume(made.id).held
            assert mine.show(made.id).sizes == {"nodes": 1}
            with pytest.raises(ForbiddenError):
                Platforms(bobs).show(made.id)
            assert mine.stop(made.id).state == "cancelled"
            assert mine.show(made.id).actions[0].what == "cancelled"
            with pytest.raises(MissingError):
                mine.show(999)


class TestOpenNebulasTemplates:
    def test_a_cluster_can_name_a_template(self, site: Site) -> None:
        """The id or name is read and checked with the rights of the submitter."""
        text = 'NAME="{}"\nCPU="0.1"\nMEMORY="64"\nCONTEXT=[NOTE="from \\"here\\""]\n'
        template = site.opennebula(ANN, "one.template.allocate", text.format("tiny"))
        raw = 'NAME="raw"\nCPU="0.1"\nMEMORY="64"\nRAW=[TYPE="kvm",DATA="x"]\n'
        its = site.opennebula(site.admin, "one.template.allocate", raw)
        site.opennebula(site.admin, "one.template.chmod", its, *(-1,) * 6, 1, -1, -1)
        own = 'template = """\nCPU=1\nMEMORY=64\n"""'
        with site.merkat() as merkat, site.merkat(BOB) as bobs:
            platforms = Platforms(merkat)
            asked = PLATFORM.replace('start = { not_before = "30d" }', "")
            # With one credit it runs for a period or two, which a busy machine misses.
            asked = asked.replace("credits = 1 ", "credits = 1000 ")
            for source in (f"template_id = {template}", 'template_name = "tiny"'):
                made = platforms.submit(asked.replace(own, source))
                until(lambda: platforms.show(made.id).state == "running", "its VM runs")  # noqa: B023
                (vm,) = platforms.show(made.id).vms
                shown = site.opennebula(ANN, "one.vm.info", vm.vm)
                assert "<MEMORY><![CDATA[64]]></MEMORY>" in shown
                assert '<NOTE><![CDATA[from "here"]]></NOTE>' in shown
                platforms.stop(made.id)
            for source, session, message in (
                (f"template_id = {template}", bobs, "Not authorized to perform USE TEMPLATE"),
                ("template_id = 4711", merkat, "template [4711]"),
                (
                    'template_name = "none"',
                    merkat,
                    "no template of yours in OpenNebula is named 'none'",
                ),
                (f"template_id = {its}", merkat, "RAW is for administrators to set"),
            ):
                with pytest.raises(BadCallError, match=re.escape(message)):
                    Platforms(session).submit(asked.replace(own, source))
