"""What is shown of people's votes."""
