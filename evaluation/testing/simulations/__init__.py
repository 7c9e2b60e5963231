"""Simulated boards and experiments with a known truth."""
