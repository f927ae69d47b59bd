"""What a container of the process runtime is set up with: image, user, network, and the file that launches it."""
