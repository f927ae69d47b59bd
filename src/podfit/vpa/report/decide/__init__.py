"""From usage to sizes, waste and risk. Pure."""
