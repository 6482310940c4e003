"""The HTTP interface, and the web page."""
