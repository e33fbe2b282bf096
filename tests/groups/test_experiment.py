"""The paper's evaluation: higher rates finish sooner, and few VMs are migrated."""

from tests.groups.experiment import CLASSES, UNTIL_DONE, WORK, round_robin, run


def test_run_times_fall_with_the_rate_and_four_vms_are_migrated() -> None:
    """Figure 7 and section 5.2: four migrations where round robin needs eight."""
    ours = run(periods=UNTIL_DONE // 2, work=WORK / 2)
    times = [ours.run_s[rate] for rate in CLASSES]
    assert times == sorted(times, reverse=True)
    assert times[0] > 1.5 * times[-1]
    assert ours.migrations <= 4
    assert run(round_robin, 1).migrations == 8
