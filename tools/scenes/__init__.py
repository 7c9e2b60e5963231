"""Render the benchmark's own images with mitsuba (needs the extra `scenes`)."""
