"""An OpenNebula-compatible cloud: the default of a first run, and the ground of most tests."""
