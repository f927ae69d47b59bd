"""The updater's actions on pods: resizes, evictions, and undoing a resize."""
