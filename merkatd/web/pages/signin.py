"""The pages for who is not signed in, and for what went wrong."""

from http import HTTPStatus

from merkatd.web.answers import Answer, page
from merkatd.web.markup import Part, h
from merkatd.web.pages.frame import document

SIGN_IN = "/sign-in"


def sign_in_page(wrong: str = "", user: str = "", status: HTTPStatus = HTTPStatus.OK) -> Answer:
    """Where one says who one is."""
    problem = h("p", wrong, class_="wrong", id="wrong", role="alert") if wrong else None
    described = "wrong" if wrong else None
    form = h(
        "form",
        h("h1", "Sign in"),
        h("p", "With your name and password in OpenNebula.", class_="quiet"),
        problem,
        h("label", "User", for_="user"),
        h(
            "input",
            id="user",
            name="user",
            value=user,
            autocomplete="username",
            autofocus=True,
            required=True,
            aria_describedby=described,
        ),
        h("label", "Password", for_="password"),
        h(
            "input",
            id="password",
            name="password",
            type="password",
            autocomplete="current-password",
            required=True,
            aria_describedby=described,
        ),
        h("button", "Sign in", type="submit", class_="main"),
        method="post",
        action=SIGN_IN,
        class_="card narrow",
    )
    code = HTTPStatus.UNAUTHORIZED if wrong and status is HTTPStatus.FORBIDDEN else status
    return page(document("Sign in", None, form, live=False), code)


def wrong_page(text: str, status: HTTPStatus) -> Answer:
    """What went wrong, in a sentence."""
    parts: list[Part] = [
        h("h1", status.phrase),
        h("p", text),
        h("p", h("a", "To the overview", href="/")),
    ]
    return page(document(status.phrase, None, h("section", *parts, class_="card narrow")), status)
