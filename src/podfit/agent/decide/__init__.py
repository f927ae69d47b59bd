"""The agent's decisions: pure functions between the four states, values in and values out."""
