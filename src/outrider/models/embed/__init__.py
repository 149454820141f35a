"""Embedding models, local and served: `outrider.models.embed.embedder.Embedder`."""
