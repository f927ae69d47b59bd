"""Rules that limit how fast pods change."""
