"""Flow control: which requests are executed, in what order, and how many at a time."""
