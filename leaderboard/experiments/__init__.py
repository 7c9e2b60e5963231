"""Experiments: plan and start their runs, review them, show them on pages."""
