"""Self-contained pages: tables and pictures of a run, a plan, an audit or a reproduction.

A report reads public things only: releases, ledgers, plans.
"""
