"""The real cores of GCS, agents and owners in one process, under virtual time and a seed.

Everything a shell does in production (streams, disks, processes, clocks) is modelled here and may
fail in the ways the real thing can. No decisions of the product live here.
"""
