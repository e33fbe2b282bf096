"""A whole daemon with its page, and browsers as far as HTTP goes."""

import http.client
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from merkatd.client import Platforms
from tests.api.xmlrpc.site import ANN, Site, until

ANNS = "anns-secret"
"""Stands in the names of all that is Ann's."""
_CONFIG = """
[web]
listeners = 3
listeners_per_user = 2
"""
_TEMPLATE = f"""
name = "{ANNS}-platform"
[controller]
kind = "none"
[budget]
credits = 100
[slo]
deadline = "2h"
[[cluster]]
name = "nodes"
least = 1
initial = 1
template = '''
CPU = "1"
VCPU = "1"
MEMORY = "256"
'''
"""


class Answer:
    """A response."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.text = response.read().decode()

    @property
    def place(self) -> str:
        """Where one is sent."""
        return str(self.headers["Location"])

    @property
    def json(self) -> Any:
        """What the data is."""
        return json.loads(self.text)


class Browser:
    """Sends requests with one cookie."""

    def __init__(self, address: str) -> None:
        self.where = address.removeprefix("http://").rstrip("/")
        self.cookie = ""

    def ask(
        self,
        method: str,
        path: str,
        form: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """The answer; cookies are kept."""
        connection = http.client.HTTPConnection(self.where, timeout=60)
        try:
            body = None if form is None else urlencode(form)
            kind = {"Content-Type": "application/x-www-form-urlencoded"} if form else {}
            sent = {"Cookie": self.cookie, **kind, **(headers or {})}
            connection.request(method, path, body, sent)
            answer = Answer(connection.getresponse())
        finally:
            connection.close()
        said = answer.headers["Set-Cookie"]
        if said:
            self.cookie = said.partition(";")[0]
        return answer

    def get(self, path: str) -> Answer:
        """As who follows a link."""
        return self.ask("GET", path)

    def post(self, path: str, **fields: str) -> Answer:
        """As who sends a form of our own."""
        return self.ask("POST", path, {"form": self.secret(), **fields})

    def secret(self) -> str:
        """What forms of this session bring along."""
        found = re.search(r'name="form" value="([0-9a-f]{64})"', self.get("/").text)
        assert found is not None
        return found[1]

    def sign_in(self, login: str) -> Answer:
        """As a user of OpenNebula."""
        user, _, password = login.partition(":")
        return self.ask("POST", "/sign-in", {"user": user, "password": password})


class PageSite(Site):
    """VM 0 is Ann's, VM 1 Bob's; Ann has another VM, and a platform, of names that tell."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, _CONFIG)
        try:
            self._fill()
        except BaseException:
            self._kill()
            raise

    def _fill(self) -> None:
        self.address = (self.state / "merkat_web").read_text().strip()
        template = f'CPU="1"\nMEMORY="128"\nNAME="{ANNS}-vm"'
        self.vm = int(self.opennebula(ANN, "one.vm.allocate", template, False))
        with self.merkat(ANN) as merkat:
            self.platform = Platforms(merkat).submit(_TEMPLATE).id
        until(self._all_there, "Ann's VMs")

    def _all_there(self) -> bool:
        rows = self.order("vms")
        there = any(row["id"] == self.vm and row["host"] for row in rows)
        return there and self.order("platform", platform=self.platform)["vms"]

    def browser(self, login: str | None = None) -> Browser:
        """A browser, signed in where a login is given."""
        made = Browser(self.address)
        if login is not None:
            answer = made.sign_in(login)
            assert (answer.status, answer.place) == (303, "/"), answer.text
        return made
