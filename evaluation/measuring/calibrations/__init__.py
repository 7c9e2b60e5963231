"""A source's scale: what metrics say of its JPEGs, and what of that ships."""
