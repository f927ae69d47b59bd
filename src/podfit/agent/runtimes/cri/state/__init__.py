"""The agent's copy of the runtime's sandboxes and containers, and how it is kept up to date."""
