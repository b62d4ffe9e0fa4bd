"""`python -m dladmm` is `dladmm`."""

from dladmm.cli import main

main()
