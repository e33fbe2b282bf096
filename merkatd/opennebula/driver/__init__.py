"""The scheduler driver of OpenNebula 7.x: its questions on a local socket, plans as answers."""
