"""What runs in the keeper's process and in the children it forks. Standard library only, and little of that."""
