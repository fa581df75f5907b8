"""`python -m gcs_service`."""

from __future__ import annotations

import sys

# structlog imports rich for pretty tracebacks if it finds it: a third of this process's start-up.
sys.modules.setdefault("rich", None)  # pyright: ignore[reportArgumentType] - None means "not there"

from gcs_service.app import main  # noqa: E402 - after the line above, which is about imports

main()
