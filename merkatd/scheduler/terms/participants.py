"""The participants of a period and their terms, depending on earlier periods."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from merkatd.scheduler.charging.charge import PayerFunds
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.observation.guest_starts import GuestStarts
from merkatd.scheduler.observation.observed import Observed
from merkatd.scheduler.terms.affordability import Afforded, messages_after_reasons
from merkatd.scheduler.terms.owners_in_debt import BarredVms
from merkatd.scheduler.terms.refused_deployments import RefusedDeployments

_SAID = (
    "its owner's VMs were started repeatedly within an hour, so it pays for memory beyond"
    " its share until its balloon has taken that memory back"
)


class Participants:
    """The refused deployments and guest starts since the daemon started."""

    def __init__(self, may: Callable[[], bool] = lambda: True) -> None:
        """`may`: returns whether VMs may be stopped between two periods."""
        self._unplaced, self._restarts, self.barred = (
            RefusedDeployments(),
            GuestStarts(),
            BarredVms(may),
        )

    def affordable(
        self,
        context: PeriodContext,
        observed: Observed,
        purse: PayerFunds,
        replaced: Mapping[int, int],
    ) -> Afforded:
        """Return the cloud to decide about.

        `replaced`: by VM id, how often its domain was replaced since the last observation.
        """
        restarted = self._restarts.note(observed, replaced)
        stopped = self.barred.note(context, observed, purse, self._restarts.started)
        # The records are not needed any more; the observation is kept until the next period.
        scene = replace(
            observed, restarted=restarted, started_often=self._restarts.often, histories={}
        )
        afforded = self._unplaced.affordable(context, scene, purse)
        if not restarted and not stopped:
            return afforded
        said = dict.fromkeys(restarted & set(observed.snapshot.vms.id.tolist()), _SAID)
        return replace(
            afforded,
            messages={**afforded.messages, **messages_after_reasons(afforded.messages, said)},
            reasons={**afforded.reasons, **messages_after_reasons(afforded.reasons, stopped)},
        )

    def note(
        self, observed: Observed, refused: Mapping[int, str], coming: Mapping[int, int]
    ) -> bool:
        """Take note of a period's results; return whether any VM was refused.

        By VM id: why VMs were not deployed, and the hosts that make room for VMs.
        """
        self._unplaced.expect(observed, coming)
        return self._unplaced.note(observed, refused)
