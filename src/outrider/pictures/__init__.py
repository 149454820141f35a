"""Pictures as SVG: a timeline of hits, a radar of repositories, a flow chart of a review."""
