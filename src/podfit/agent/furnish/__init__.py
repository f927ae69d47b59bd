"""What a container is furnished with: its description for the runtime, environment, volumes, and what they refer to."""
