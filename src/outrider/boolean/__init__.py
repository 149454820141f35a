"""Boolean query languages: parsers to one tree, and its exact evaluator."""
