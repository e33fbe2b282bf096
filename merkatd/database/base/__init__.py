"""The base of all stores: engine, transactions, savepoints, table definitions."""
