"""The `shoal` command. Talks to a GCS with plain blocking calls; never imports the services."""
