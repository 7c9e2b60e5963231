"""The topology of many machines as processes of one: what docs/deploy.md draws, to be killed at."""
