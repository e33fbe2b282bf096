"""Points in time in templates: a duration after the submission, or a date."""

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from merkatd.base.quantities import OutOfBoundsError, bounded, checked_moment
from merkatd.base.toml_reader import duration


@dataclass(frozen=True, slots=True)
class TemplateTime:
    """A time, relative to the template's submission or absolute."""

    after_s: float | None = None
    at_s: float | None = None

    def seconds(self, submitted_s: float) -> float:
        """Return the time on the daemon's clock, in seconds since the epoch."""
        at_s = self.at_s if self.at_s is not None else submitted_s + (self.after_s or 0.0)
        return bounded(at_s)


def moment(value: Any) -> TemplateTime:
    """Parse a duration after the submission, or a date and time with a time zone."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError("must have a time zone, like 2026-05-01T09:00:00Z")
        return TemplateTime(at_s=checked_moment(value))
    try:
        return TemplateTime(after_s=duration(value))
    except OutOfBoundsError:
        raise
    except ValueError:
        raise ValueError(
            'must be a time after the submission like "6h", or a date like 2026-05-01T09:00:00Z'
        ) from None


def moment_of_text(value: Any) -> TemplateTime:
    """Parse the same from a text."""
    with suppress(TypeError, ValueError):
        value = datetime.fromisoformat(value)
    return moment(value)
