"""Messages between the daemon and its processes: values and their bytes, without sockets."""
