"""Embedding models, local and served; the interface is `outrider.models.embed.embedder.Embedder`."""
