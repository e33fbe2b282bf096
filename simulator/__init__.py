"""Virtual time: the daemon's own heart against traces, models and other schedulers."""
