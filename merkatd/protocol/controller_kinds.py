"""The kinds of controllers and monitors, and the environment variables of their processes."""

import re
from collections.abc import Mapping
from pathlib import Path

# Each value is "module:class".
CONTROLLERS: Mapping[str, str] = {
    "best_effort": "controllers.applications.best_effort:BestEffort",
    "deadline": "controllers.applications.deadline_controllers:FullDeadline",
    "elastic": "controllers.applications.elastic:Elastic",
    "full_deadline": "controllers.applications.deadline_controllers:FullDeadline",
    "full_performance": "controllers.applications.deadline_controllers:FullPerformance",
    "partial_deadline": "controllers.applications.deadline_controllers:PartialDeadline",
    "patient": "controllers.applications.deadline_controllers:Patient",
}
MONITORS: Mapping[str, str] = {
    "queue": "controllers.monitors.queue_monitor:QueueMonitor",
    "requests": "controllers.monitors.requests_monitor:Requests",
    "steps": "controllers.monitors.steps_monitor:Steps",
}
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}", re.ASCII)


def file_of(kind: str, folder: Path) -> Path | None:
    """Return the file of a site's own controller or monitor; None if it does not exist."""
    if not _NAME.fullmatch(kind):
        return None
    path = folder / f"{kind}.py"
    return path if path.is_file() else None


def known_kinds(folder: Path, built_in: Mapping[str, str] = CONTROLLERS) -> tuple[str, ...]:
    """Return all kinds that a template can name, in alphabetical order."""
    own = {path.stem for path in folder.glob("*.py") if _NAME.fullmatch(path.stem)}
    return tuple(sorted(own | built_in.keys()))


CONTROLLER = "controller"
"""The role of a platform's controller; monitors have other roles."""

SECRET_FD = "MERKAT_PASSPORT_FD"  # noqa: S105 - a variable's name
"""The environment variable with the file descriptor from which the passport can be read, once."""
SSH = "MERKAT_SSH"
"""The environment variable with the SSH settings of monitors, in JSON."""
HOME = "MERKAT_PROCESS_OF"
"""The environment variable that marks all processes of a daemon with its state directory."""
