"""`python -m control_plane` is the `outrigger` command."""

from control_plane.cli.main import main

main()
