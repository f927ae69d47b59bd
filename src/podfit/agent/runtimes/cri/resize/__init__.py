"""Changes of limits in a CRI runtime: the kernel first, then the runtime."""
