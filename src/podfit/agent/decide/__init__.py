"""The agent's decisions: pure functions between the four states of a pod's size."""
