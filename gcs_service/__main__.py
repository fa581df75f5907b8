"""`python -m gcs_service`."""

from gcs_service.app import main

main()
