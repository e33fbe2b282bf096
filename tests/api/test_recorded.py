"""The words of the record match the stored ones."""

from merkatd.database.scheduler import step_store
from merkatd.protocol.control_messages import KINDS, STATES


def test_every_kind_and_state_can_be_requested() -> None:
    """No others can."""
    assert set(KINDS) == set(step_store._KINDS)
    assert tuple(str(state) for state in step_store.StepState) == STATES
