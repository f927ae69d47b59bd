"""The node agent, which runs the pods bound to one node: Desired → Allocated → Actuated → Actual."""
