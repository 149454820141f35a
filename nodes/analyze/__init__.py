"""The stages of an analysis: subject, surroundings, ratings, evidence."""
