"""The one place where plans are transformed: pure functions from a plan to a plan and reasons."""
