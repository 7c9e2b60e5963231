"""Boards and experiments whose truth is known."""
