"""The demo: a small cluster that is alive, and a screen that shows its pods grow and shrink while they run."""
