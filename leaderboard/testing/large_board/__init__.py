"""Boards of any size, and what their pages may cost."""
