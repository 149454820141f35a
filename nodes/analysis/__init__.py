"""The stages of an analysis, one a file: the subject itself, what stands beside it, its ratings, the sentences that count."""
