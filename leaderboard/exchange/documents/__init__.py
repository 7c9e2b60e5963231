"""Texts with tables and figures, written once and printed as LaTeX, HTML, Markdown or CSV."""
