"""Where things are in this checkout."""

from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
CAPTURES = ROOT / "captures"
DATA = TESTS / "data"
SUPPORT = TESTS / "support"
