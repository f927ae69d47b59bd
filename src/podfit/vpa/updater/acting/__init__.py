"""What the updater does to pods: resizes, evictions, and taking a resize back."""
