"""Types and ports that every layer may use; imports nothing else of Outrider."""
