"""The tenants' XML-RPC interface as the door of `merkat`."""

import argparse
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from merkat.answers.money_answers import MoneyAnswers
from merkat.answers.order_answers import OrderAnswers
from merkat.answers.period_answers import PeriodAnswers
from merkat.answers.tenant_names import TenantNames
from merkat.failures import reason_of
from merkat.settings import DaemonAddress, daemon_address
from merkatd.client import Merkat, MerkatError
from merkatd.client.merkat import default_session
from merkatd.commands.ask_daemon import Ask
from merkatd.commands.terminal.command_parser import NotDoneError


class RpcDoor:
    """The tenants' interface: it answers each user about the user's own things."""

    program = "merkat"
    is_own = True

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the option `--endpoint`."""
        parser.add_argument(
            "--endpoint",
            metavar="URL",
            help="the daemon's address (default: MERKAT_ENDPOINT, else endpoint in"
            " ~/.config/merkat/config.toml); the login is in the file that ONE_AUTH names, else in"
            " ~/.one/one_auth",
        )

    @contextmanager
    def opened(self, arguments: argparse.Namespace) -> Iterator[Ask]:
        """Yield a function that asks with the user's login. Raise NotDoneError."""
        with self.client(arguments) as merkat:
            address = daemon_address(arguments.endpoint)
            names = TenantNames(merkat, default_session().partition(":")[0])
            known: Mapping[str, Callable[..., Any]] = {
                **PeriodAnswers(merkat, names).known,
                **MoneyAnswers(merkat, names).known,
                **OrderAnswers(merkat, names).known,
            }

            def ask(question: str, **parameters: Any) -> Any:
                given = {name: value for name, value in parameters.items() if value is not None}
                try:
                    return known[question](**given)
                except MerkatError as error:
                    _fail(error, address)

            yield ask

    def address(self, arguments: argparse.Namespace) -> str:
        """Return the daemon's address."""
        return daemon_address(arguments.endpoint).endpoint

    @contextmanager
    def client(self, arguments: argparse.Namespace) -> Iterator[Merkat]:
        """Yield the client of the daemon. Raise NotDoneError, also for errors of its calls."""
        address = daemon_address(arguments.endpoint)
        try:
            session = default_session()
        except MerkatError:
            raise NotDoneError(
                f"{_login_file()} contains no login: write your user:password of OpenNebula to its"
                " first line, or name another file in ONE_AUTH"
            ) from None
        try:
            with Merkat(address.endpoint, session, context=address.context()) as merkat:
                yield merkat
        except MerkatError as error:
            _fail(error, address)


RPC_DOOR = RpcDoor()


def _fail(error: MerkatError, address: DaemonAddress) -> NoReturn:
    raise NotDoneError(reason_of(error, address, _login_file())) from None


def _login_file() -> Path:
    named = os.environ.get("ONE_AUTH", "")
    return Path(named).expanduser() if named else Path.home() / ".one" / "one_auth"
