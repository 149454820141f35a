"""The chat model behind any OpenAI-compatible endpoint: which one, how it is asked for structure, and what a call costs."""
