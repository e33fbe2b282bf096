"""Tables of money: accounts, entries, budgets, charges, reservations, tenants and use."""
