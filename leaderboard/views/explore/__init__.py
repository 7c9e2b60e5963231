"""Ways to look at the results beside the tables: price, pictures, time, and views for other sites."""
