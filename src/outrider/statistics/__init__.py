"""Statistics of reviews: when screening may stop, and what was missed."""
