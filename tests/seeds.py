"""The seed of what tests draw at random: another in each run. TV_TEST_SEED names one to draw again."""

import os
import secrets

# Set for the processes that pytest-xdist starts, too.
SEED = int(os.environ.setdefault("TV_TEST_SEED", str(secrets.randbelow(2**32))))
