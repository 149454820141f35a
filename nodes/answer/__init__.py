"""The short answer: sentences of a model, each checked against the kept ones that it cites."""
