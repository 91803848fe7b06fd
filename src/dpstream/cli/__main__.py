"""``python -m dpstream.cli`` is the ``dpstream`` command."""

from dpstream.cli.main import main

main()
