"""`import ray` for programs and tests written for Ray: every name is Shoal's.

Submodules under Ray's module paths are the very same modules, so that a class has one identity
whichever way it was imported.
"""

from __future__ import annotations

import importlib
import sys

import shoal
from shoal import *  # noqa: F403

_MODULES = {
    "actor": "shoal.actor",
    "cluster_utils": "shoal.cluster_utils",
    "exceptions": "shoal.exceptions",
    "experimental": "shoal.experimental",
    "experimental.internal_kv": "shoal.experimental.internal_kv",
    "job_config": "shoal.job_config",
    "cloudpickle": "shoal.cloudpickle",
    "remote_function": "shoal.remote_function",
    "runtime_context": "shoal.runtime_context",
    "runtime_env": "shoal.runtime_env",
    "types": "shoal.types",
    "util": "shoal.util",
    "util.actor_pool": "shoal.util.actor_pool",
    "util.check_serialize": "shoal.util.check_serialize",
    "util.helpers": "shoal.util.completion",
    "util.serialization": "shoal.util.serialization",
    "util.joblib": "shoal.util.joblib",
    "util.multiprocessing": "shoal.util.multiprocessing",
    "util.placement_group": "shoal.util.placement_group",
    "util.queue": "shoal.util.queue",
    "util.scheduling_strategies": "shoal.util.scheduling_strategies",
}

for _name, _target in _MODULES.items():
    sys.modules[f"{__name__}.{_name}"] = importlib.import_module(_target)

for _name in ("actor", "exceptions", "util", "experimental", "cluster_utils"):
    globals()[_name] = sys.modules[f"{__name__}.{_name}"]

# `ray.util.placement_group` is the function, as an attribute; the module is found by import.
shoal.util.placement_group = sys.modules[f"{__name__}.util.placement_group"].placement_group

__version__ = shoal.__version__
