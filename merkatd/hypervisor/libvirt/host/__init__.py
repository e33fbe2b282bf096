"""One host: its connection, its guests, and the drivers of the hypervisors."""
