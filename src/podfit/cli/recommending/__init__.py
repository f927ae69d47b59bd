"""`podfit recommend`: asks, decides, shows, and changes what is agreed to."""
