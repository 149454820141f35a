"""Texts to vectors, for writing and for reading: `outrider.retrieval.embed.embedder.Embedder`."""
