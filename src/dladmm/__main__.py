"""`python -m dladmm` is `dladmm`."""

from dladmm.cli.app import main

main()
