"""A pod as the scheduler sees it."""
