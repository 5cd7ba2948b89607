"""Models and data that the listings of the documentation import."""
