"""Entry of `python -m backstay_cluster`."""

import sys

from backstay_cluster.main import main

sys.exit(main())
