"""What containers used: where it is read from, and how it is gathered."""
