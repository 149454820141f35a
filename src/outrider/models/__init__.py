"""Models that Outrider calls or runs: chat, embeddings, rerankers."""
