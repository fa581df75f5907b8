"""The measured work, written once for any library with the field's public names.

Files here import neither library: the module is handed in, so the same lines run on both sides of a
comparison, also in an environment where only one of them is installed.
"""
