"""The processes of controllers and monitors: each is supervised, and none outlives the daemon.

This module imports nothing: the warden and the processes need only small parts of the package.
"""
