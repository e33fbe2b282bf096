"""The commands of `merkatd`: each takes parsed arguments and returns an exit code."""
