"""One host: its connection, its guests, and what differs between hypervisors."""
