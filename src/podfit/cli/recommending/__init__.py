"""`podfit recommend`: collects, computes, shows, and applies confirmed changes."""
