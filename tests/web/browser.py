"""Browsers at the level of HTTP."""

import http.client
import json
import re
from collections.abc import Mapping
from html import unescape
from typing import Any
from urllib.parse import urlencode


class Answer:
    """A response."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.text = response.read().decode()

    @property
    def place(self) -> str:
        """The target of a redirection."""
        return str(self.headers["Location"])

    @property
    def hosts(self) -> Any:
        """The data of the bars of hosts."""
        return self._data("hosts")

    @property
    def charts(self) -> Any:
        """The data of the charts."""
        return self._data("charts")

    def _data(self, name: str) -> Any:
        match = re.search(rf' data-{name}="([^"]*)"', self.text)
        assert match is not None, self.text
        return json.loads(unescape(match[1]))


class Browser:
    """A client that keeps one cookie."""

    def __init__(self, address: str) -> None:
        self.where = address.removeprefix("http://").rstrip("/")
        self.cookie = ""
        self._secrets: dict[str, str] = {}

    def ask(
        self,
        method: str,
        path: str,
        form: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Return the answer and keep its cookie."""
        connection = http.client.HTTPConnection(self.where, timeout=60)
        try:
            body = None if form is None else urlencode(form)
            kind = {"Content-Type": "application/x-www-form-urlencoded"} if method == "POST" else {}
            if method == "POST" and not {"Origin", "Sec-Fetch-Site"} & set(headers or ()):
                kind["Origin"] = f"http://{self.where}"
            sent = {"Cookie": self.cookie, **kind, **(headers or {})}
            connection.request(method, path, body, sent)
            answer = Answer(connection.getresponse())
        finally:
            connection.close()
        cookie = answer.headers["Set-Cookie"]
        if cookie:
            self.cookie = cookie.partition(";")[0]
        return answer

    def get(self, path: str) -> Answer:
        """Follow a link."""
        return self.ask("GET", path)

    def post(self, path: str, **fields: str) -> Answer:
        """Send a form of the page itself."""
        return self.ask("POST", path, {"form": self.secret(), **fields})

    def secret(self) -> str:
        """Return the secret that forms of this session contain."""
        if self.cookie not in self._secrets:
            match = re.search(
                r'name="form" value="([0-9a-f]{64})"', self.get("/platforms/new").text
            )
            assert match is not None
            self._secrets[self.cookie] = match[1]
        return self._secrets[self.cookie]

    def sign_in(self, login: str) -> Answer:
        """Sign in as a user of OpenNebula."""
        user, _, password = login.partition(":")
        return self.ask("POST", "/sign-in", {"user": user, "password": password})
