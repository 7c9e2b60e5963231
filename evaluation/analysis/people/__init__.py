"""What people say: how far each voter is believed, whom they prefer, and who agrees with them."""
