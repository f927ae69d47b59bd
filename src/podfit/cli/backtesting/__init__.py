"""`podfit backtest`: reads histories and shows how policies would have performed."""
