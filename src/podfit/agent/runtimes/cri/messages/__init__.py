"""From the agent's configuration to CRI's messages, and back."""
