"""The command line.

``dpstream run | plan | mechanisms | ledger | verify | audit | reproduce | bench``

Every command takes ``--json`` (one object on standard output and nothing else there), shows a
progress bar on a terminal and none in a pipe, and exits 0 on success, 2 on wrong usage and 1 on
failure with one clear line on standard error.
"""
