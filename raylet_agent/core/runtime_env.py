"""What of a runtime environment this agent can prepare: environment variables."""

from __future__ import annotations

import json
from typing import cast

ALLOWED_KEYS = ("env_vars",)


def env_of(text: str) -> dict[str, str]:
    """Environment variables of a runtime environment's JSON text.

    Raises:
        ValueError: not an object, an unknown key, or a variable that is not text; names it.
    """
    if not text:
        return {}
    try:
        loaded: object = json.loads(text)
    except ValueError as error:
        raise ValueError(f"the runtime environment is not JSON: {error}") from None
    if not isinstance(loaded, dict):
        raise ValueError("the runtime environment must be a JSON object")  # noqa: TRY004 - a wrong value of an option, reported as such
    fields = cast("dict[str, object]", loaded)
    unknown = sorted(set(fields) - set(ALLOWED_KEYS))
    if unknown:
        allowed = ", ".join(ALLOWED_KEYS)
        raise ValueError(
            f"runtime environment: {', '.join(unknown)} not supported; allowed: {allowed}"
        )
    variables = fields.get("env_vars", {})
    if not isinstance(variables, dict):
        raise ValueError("runtime environment: env_vars must be an object")  # noqa: TRY004 - a wrong value of an option, reported as such
    result: dict[str, str] = {}
    for name, value in cast("dict[str, object]", variables).items():
        if not isinstance(value, str) or not name or "=" in name or "\0" in name + value:
            raise ValueError(f"runtime environment: env_vars[{name!r}] must be text without NUL")
        result[name] = value
    return result


def canonical(text: str) -> str:
    """The key by which workers are reused: an environment that changes nothing is none."""
    return text if env_of(text) else ""
