"""The parts of `podfit backtest`: reads usage histories, and shows how policies would have performed on them."""
