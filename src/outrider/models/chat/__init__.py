"""Chat models behind any OpenAI-compatible endpoint: structured answers and costs."""
