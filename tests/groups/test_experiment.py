"""The paper's evaluation: higher rates finish sooner, and few VMs are migrated."""

from tests.groups.experiment import CLASSES, UNTIL_DONE, WORK, round_robin, run
from tests.lengths import shorten


def test_run_times_fall_with_the_rate_and_four_vms_are_migrated() -> None:
    """Figure 7 and section 5.2: four migrations where round robin needs eight."""
    part = shorten(2, 3)
    ours = run(periods=UNTIL_DONE // part, work=WORK / part)
    times = [ours.run_s[rate] for rate in CLASSES]
    assert times == sorted(times, reverse=True)
    assert times[0] > 1.5 * times[-1]
    assert ours.migrations <= 4
    assert run(round_robin, 1).migrations == 8
