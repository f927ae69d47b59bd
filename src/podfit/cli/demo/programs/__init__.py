"""What really runs in the demo's pods. Each file is a program of its own: plain Python, nothing of podfit."""
