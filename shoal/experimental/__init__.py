"""Names that programs written for Ray expect under `experimental`."""
