"""The seed of what tests draw at random: another in each run, or what TV_TEST_SEED says."""

import os
import secrets

# Set for the processes that pytest-xdist starts, too.
SEED = int(os.environ.setdefault("TV_TEST_SEED", str(secrets.randbelow(2**32))))
