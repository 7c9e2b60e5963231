"""Telling those who asked: what is new on the board, and what became of a submission."""
