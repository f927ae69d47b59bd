"""Files and folders: atomic replacement, locks, reserved space, change notification."""
