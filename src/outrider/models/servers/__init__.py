"""Servers of models: replicas, requests and batches, for embeddings and rerankers."""
