"""Changes as patches for a pull request: their contents, and the folder that keeps them."""
