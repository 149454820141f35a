"""Everything that calls or runs a model: chat, embeddings, rerankers."""
