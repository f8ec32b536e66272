"""`python -m odradek`: the command line without its script."""

from odradek.cli.main import main

main()
