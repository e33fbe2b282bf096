"""Controllers and monitors as processes: none runs unwatched, and none outlives the daemon.

Nothing is imported here: the warden and the processes need only small parts of this.
"""
