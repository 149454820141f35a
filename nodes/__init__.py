"""The stages of the pipeline, one a file. A node reads the state and returns an update; it knows adapters only as ports."""
