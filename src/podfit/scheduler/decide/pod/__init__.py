"""The scheduler's model of a pod."""
