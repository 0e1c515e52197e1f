"""The operator's command line and the files that point clients at the server."""
