"""How a guest is reached: its network, its address and its console."""
