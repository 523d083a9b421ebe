"""`python -m loopwright.integrations.mpi`, started by mpirun."""

import sys

from loopwright.integrations.mpi.mpi_command import main

if __name__ == "__main__":
    sys.exit(main())
