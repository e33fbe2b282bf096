"""The scheduler driver of OpenNebula 7.x: questions of oned on a local socket, plans as answers."""
