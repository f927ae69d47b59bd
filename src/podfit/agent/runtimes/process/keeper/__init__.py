"""The keeper process and the children it forks. Imports little, and only from the standard library."""
