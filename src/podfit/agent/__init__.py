"""The node agent: Desired → Allocated → Actuated → Actual."""
