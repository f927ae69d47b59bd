"""The parts of `podfit recommend`: collects usage, computes sizes, shows them, and applies confirmed changes."""
