"""`podfit backtest`: reading histories, and showing how policies would have done."""
