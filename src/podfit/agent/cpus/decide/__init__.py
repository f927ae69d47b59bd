"""The decisions of the CPU manager. Pure: sets in, sets out."""
