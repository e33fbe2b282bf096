"""The words of the record are the record's."""

from merkatd.database.scheduler import step_store
from merkatd.protocol.control_messages import KINDS, STATES


def test_every_kind_and_state_can_be_asked_for() -> None:
    """And nothing else."""
    assert set(KINDS) == set(step_store._KINDS)
    assert tuple(str(state) for state in step_store.StepState) == STATES
