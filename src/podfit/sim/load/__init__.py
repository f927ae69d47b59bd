"""The demand of pods, step by step, before any limit applies."""
