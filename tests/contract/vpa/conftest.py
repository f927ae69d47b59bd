"""Makes the reader of recordings importable for the tests of this folder, in every import mode of pytest."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
