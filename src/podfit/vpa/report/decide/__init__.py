"""From use to sizes, waste and risk. Pure."""
