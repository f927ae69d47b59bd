"""What runs containers: one protocol (`base`), several runtimes."""
