"""Objects in the store: decoded, cached and watched."""
