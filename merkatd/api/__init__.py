"""The doors through which commands and tenants reach a running daemon."""
