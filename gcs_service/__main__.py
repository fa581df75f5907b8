"""`python -m gcs_service`."""

from __future__ import annotations

from gcs_service.app import main

main()
