"""What the ways to look around show: charts of price and time, strips, cards."""
