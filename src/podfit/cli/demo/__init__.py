"""The demo: a small running cluster, and a screen that shows its pods grow and shrink."""
