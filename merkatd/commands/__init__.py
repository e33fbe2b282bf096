"""The commands of `merkatd`, one module each: arguments in, an exit code out."""
