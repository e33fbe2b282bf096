"""The monitor `steps`: how many iterations an application has made, and what one takes.

Its parameters: `log`, the application's log in each VM; `pattern`, what a line of it that tells of
an iteration looks like; `status`, a file with the exit code once it has ended; `configure`, a
command for each VM when it comes up; `address`, `user`, `port`, where VMs are not reached as the
daemon's configuration says. Guests of the embedded cloud have no logs: there the cloud tells.
"""

from collections.abc import Mapping
from typing import Any

from controllers.monitors.counting import told
from controllers.monitors.guests import Guests, home, keys_here, reach_here
from controllers.monitors.looking import Notebook, Way
from controllers.monitors.monitor import Monitor
from controllers.monitors.through_cloud import ThroughCloud, has_cloud
from controllers.monitors.through_ssh import ThroughSsh, Watched


class Steps(Monitor):
    """Looks in the way that fits the cloud."""

    def __init__(self, *given: Any, way: Way | None = None, **named: Any) -> None:
        super().__init__(*given, **named)
        self._way = self._found() if way is None else way

    async def look(self) -> tuple[float, Mapping[str, float]] | None:
        """None while nothing can be told."""
        seen = await self._way.look()
        values = {**told(seen.counts, seen.absent, seen.at_s), **seen.more}
        return (seen.at_s, values) if values else None

    def _found(self) -> Way:
        reach, here = reach_here(self.parameters), home()
        if reach is None:
            if has_cloud(here):
                return ThroughCloud(here, self._hand, self.cluster.name)
            raise ValueError("[bus] ssh_address, or the monitor's parameters.address, is missing")
        guests = Guests(reach, keys_here(), self._hand, self.cluster.name)
        folder = here / "platforms" / str(self.assignment.platform)
        notebook = Notebook(folder / f"{self.cluster.name}.json")
        return ThroughSsh(guests, Watched.of(self.parameters), notebook)
