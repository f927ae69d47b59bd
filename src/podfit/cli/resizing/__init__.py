"""What the commands share about resizes: plans, stages, following one to its end."""
