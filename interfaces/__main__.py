"""Run the `turnlog` command by `python -m turnlog`."""

from .cli import main

main(prog_name="turnlog")
