"""The reload: the running parts of the daemon adopt a new configuration."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from twisted.logger import Logger

from merkatd.api.http.http_server import CertificateError
from merkatd.config.configuration import Config
from merkatd.config.cross_checks import conflicts
from merkatd.config.errors import ConfigError, Problem
from merkatd.config.reload_rules import changes_at_once
from merkatd.groups.group_keeper import Keeper
from merkatd.hypervisor.libvirt import LibvirtHypervisors
from merkatd.ledger import Ledger
from merkatd.platforms.manager import Manager
from merkatd.scheduler.leadership import Leadership, lease_s_of
from merkatd.scheduler.period import Scheduler

_log = Logger()


@dataclass(frozen=True, slots=True)
class RunningParts:
    """The running parts that use the configuration."""

    scheduler: Scheduler
    manager: Manager
    keeper: Keeper
    ledgers: Sequence[Ledger]
    leading: Leadership | None
    renewals: Mapping[str, Callable[[], None]] = field(default_factory=dict)
    """By section, a function that reads its certificate again. Raises CertificateError."""

    def adopt(self, config: Config) -> None:
        """Use this configuration from the next period on."""
        rules = rules_of(config)
        hypervisors = self.scheduler.world.hypervisors
        if isinstance(hypervisors, LibvirtHypervisors):
            hypervisors.adopt(config.limits)
        self.scheduler.adopt(replace(self.scheduler.world, **rules))
        self.manager.adopt(replace(self.manager.world, **rules))
        self.keeper.world = replace(self.keeper.world, **rules)
        for ledger in self.ledgers:
            ledger.money = config.money
        if self.leading is not None:
            self.leading.adopt(lease_s_of(config.period.interval_s))


def rules_of(config: Config) -> dict[str, Any]:
    """Return the fields of PeriodContext that a reload can change."""
    return {
        "rhythm": config.period,
        "acting": config.acting,
        "markets": config.priced_markets(),
        "limits": config.limits,
        "money": config.money,
        "failures": config.failures,
    }


class ConfigurationReload:
    """The configuration in force, and its reload."""

    def __init__(self, parts: RunningParts, config: Config) -> None:
        self._parts = parts
        self.config = config

    def take(self, new: Config) -> Config:
        """Adopt the keys that need no restart, log the others; return the configuration in force.

        Raise ConfigError if the new values conflict with values that need a restart to change.
        """
        changes = changes_at_once(self.config, new)
        problems = [
            Problem(conflict.keys[0], f"{conflict.message}; restart the daemon to change both")
            for conflict in conflicts(changes.config)
        ]
        if problems:
            raise ConfigError("with the keys that need a restart", problems)
        self._parts.adopt(changes.config)
        self.config = changes.config
        _log.info(
            "The daemon reloaded the configuration; from the next period on, these keys change:"
            " {changed}",
            changed=", ".join(changes.changed) or "none",
        )
        for key in changes.restart:
            _log.warn("{key} needs a restart: its old value applies until then", key=key)
        restart = ", ".join(changes.restart)
        self._parts.scheduler.configuration = f"needs a restart: {restart}" if restart else None
        for section, renew in self._parts.renewals.items():
            try:
                renew()
            except CertificateError as error:
                self.report_problem(
                    f"the old certificate stays in use: {section}.certificate: {error}"
                )
        return changes.config

    def report_problem(self, what: str) -> None:
        """Report that the daemon could not apply a part of the configuration in force."""
        _log.error("The configuration is in force, but {what}", what=what)
        earlier = self._parts.scheduler.configuration
        report = f"in force, but {what}"
        self._parts.scheduler.configuration = f"{report}; {earlier}" if earlier else report

    def refuse(self, error: ConfigError) -> None:
        """Keep the configuration in force, and report the problems of the new one."""
        for problem in error.problems:
            _log.error("{source}: {problem}", source=error.source, problem=str(problem))
        _log.error("The configuration is refused: the old one stays in force")
        first, more = error.problems[0], len(error.problems) - 1
        message = f"refused: {error.source}: {first}" + (f" (and {more} more)" if more else "")
        self._parts.scheduler.configuration = message
