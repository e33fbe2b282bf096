"""What the daemon and the processes beside it say to each other: values and bytes, no sockets."""
