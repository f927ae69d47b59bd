"""What the learning policies share: experts, their features hour by hour, and the constants fitted to public traces."""
