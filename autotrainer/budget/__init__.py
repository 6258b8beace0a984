"""Budgets: grammar, cost model, ledger."""
