"""The CPU time of scripts in each frame, from the trace of the browser's main thread."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

CATEGORIES = (
    "devtools.timeline",
    "devtools.timeline.frame",
    "disabled-by-default-devtools.timeline",
)
_SCRIPT = frozenset(
    {
        "EvaluateScript",
        "EventDispatch",
        "FireAnimationFrame",
        "FireIdleCallback",
        "FunctionCall",
        "MajorGC",
        "MinorGC",
        "RunMicrotasks",
        "TimerFire",
        "v8.callFunction",
    }
)
_FRAME = "BeginCommitCompositorFrame"
_ANIMATED = "FireAnimationFrame"


def script_ms(events: Iterable[Mapping[str, Any]]) -> list[float]:
    """Return the CPU time of scripts, for each frame of the page in which scripts ran.

    This is the time of the thread itself, so other programs on the machine do not count.
    """
    known = sorted(
        (event for event in events if event.get("ph") == "X" or event["name"] == _FRAME),
        key=lambda event: (float(event["ts"]), -float(event.get("dur", 0.0))),
    )
    threads = [(event["pid"], event["tid"]) for event in known if event["name"] == _ANIMATED]
    main = max(set(threads), key=threads.count)
    mine = [event for event in known if (event["pid"], event["tid"]) == main]
    ended = [float(event["ts"]) for event in mine if event["name"] == _FRAME]
    taken: defaultdict[int, float] = defaultdict(float)
    ending = 0.0
    for event in mine:
        at, lasted = float(event["ts"]), float(event.get("dur", 0.0))
        if event["name"] not in _SCRIPT or at < ending:
            continue
        # A nested call is already part of the call that contains it.
        ending = at + lasted
        taken[bisect_right(ended, at)] += float(event["tdur"]) / 1000.0
    return list(taken.values())
