"""Use cases: what an interface calls, each over the services."""
