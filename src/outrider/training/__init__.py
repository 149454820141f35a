"""Training and evaluation of rerankers and distillers of one's own."""
