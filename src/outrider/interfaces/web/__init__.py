"""The web page at `/`: its static files, and routes that only the page uses."""
