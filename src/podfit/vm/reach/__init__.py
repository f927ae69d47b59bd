"""Access to a guest: its network, its address and its console."""
