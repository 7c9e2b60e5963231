"""Experiments: plan and start their runs, review them in the admin, show them on pages."""
