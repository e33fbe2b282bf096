"""The interfaces of a running daemon: control socket, XML-RPC over HTTP, and metrics."""
