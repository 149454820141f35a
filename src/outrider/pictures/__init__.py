"""Pictures as SVG: a timeline of hits, the dimensions of repositories, the flow of a systematic search."""
