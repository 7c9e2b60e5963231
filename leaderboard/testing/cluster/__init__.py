"""The topology of many machines as processes of one: what docs/operating.md draws, to be killed at."""
