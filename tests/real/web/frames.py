"""How much script a frame costs, from what the browser itself writes down of its main thread."""

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
    """Of each frame of the page that scripts have a part in, the processor's time that they took.

    It is the thread's own time: what other programs take of the machine is none of it.
    """
    known = sorted(
        (one for one in events if one.get("ph") == "X" or one["name"] == _FRAME),
        key=lambda one: (float(one["ts"]), -float(one.get("dur", 0.0))),
    )
    threads = [(one["pid"], one["tid"]) for one in known if one["name"] == _ANIMATED]
    main = max(set(threads), key=threads.count)
    mine = [one for one in known if (one["pid"], one["tid"]) == main]
    ended = [float(one["ts"]) for one in mine if one["name"] == _FRAME]
    taken: defaultdict[int, float] = defaultdict(float)
    ending = 0.0
    for one in mine:
        at, lasted = float(one["ts"]), float(one.get("dur", 0.0))
        if one["name"] not in _SCRIPT or at < ending:
            continue
        # What is called by what is counted already is in that.
        ending = at + lasted
        taken[bisect_right(ended, at)] += float(one["tdur"]) / 1000.0
    return list(taken.values())
