"""What a score job needs: chains as it claims them, and the scale of their sources."""
