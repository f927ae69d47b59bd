"""The keeper process and the children it forks. Standard library only, and little of that."""
