"""Commands in the guest, its console, and connections to it."""
