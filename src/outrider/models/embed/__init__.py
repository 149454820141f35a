"""Texts to vectors, for writing and for reading: `outrider.models.embed.embedder.Embedder`."""
