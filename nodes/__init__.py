"""The stages of the pipeline: each reads the state and returns an update."""
