"""The version, for the package and for `GetClusterInfo`."""

__version__ = "0.1.0"
