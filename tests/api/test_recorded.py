"""The words of the record are the record's."""

from merkatd.api.recorded import KINDS, STATES
from merkatd.database import steps


def test_every_kind_and_state_can_be_asked_for() -> None:
    """And nothing else."""
    assert set(KINDS) == set(steps._KINDS)
    assert tuple(str(state) for state in steps.StepState) == STATES
