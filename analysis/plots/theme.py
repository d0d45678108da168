"""Colours, fonts and file formats of all figures, chosen so that every run gives the same bytes.

The palette is Okabe and Ito's, which can be told apart with any kind of colour vision; severities differ in shape as
well. Knows matplotlib; must not know frames.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import re
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from dissector.errors import UsageError
from dissector.extras import install_command
from dissector.terminal.style import safe_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")
_METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "ModDate": None, "Creator": None, "Producer": None},
}
DPI = 110


@dataclass(frozen=True, slots=True)
class Theme:
    """The colours of a figure."""

    paper: str
    ink: str
    quiet: str  #: less important text
    faint: str  #: grid lines
    series: tuple[str, ...]
    error: str
    warning: str
    info: str
    dark: bool

    def colormap(self) -> Colormap:
        """Return the colour map for amounts, without the ends that look like the paper."""
        from matplotlib import colormaps  # noqa: PLC0415 - see require_matplotlib
        from matplotlib.colors import ListedColormap  # noqa: PLC0415

        # One map for light and dark: both of its ends are visible on either paper.
        shades = [0.18 + 0.68 * step / 255 for step in range(256)]
        return ListedColormap(colormaps["cividis"](shades))

    def mark(self, severity: str) -> tuple[str, str]:
        """Return the colour and the shape of a finding."""
        return {"error": (self.error, "v"), "warning": (self.warning, "D"), "info": (self.info, "o")}[severity]


LIGHT = Theme(
    *("#ffffff", "#1a1a1a", "#5f6368", "#d9dce0"),
    ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#7a5c00", "#44475a"),
    *("#d00000", "#b35900", "#0072b2"),
    dark=False,
)
DARK = Theme(
    *("#14171c", "#eceff4", "#a3abb8", "#363c46"),
    ("#56b4e9", "#e69f00", "#2fc99a", "#e295c3", "#f0e442", "#7fa8ff", "#c3c8d4"),
    *("#ff6b5e", "#ffb454", "#56b4e9"),
    dark=True,
)


def require_matplotlib() -> None:
    """Raise UsageError if matplotlib is not installed."""
    try:
        import matplotlib as mpl  # noqa: PLC0415 - takes half a second, and only pictures need it
    except ImportError as error:
        hint = install_command("matplotlib")
        raise UsageError(f"pictures need matplotlib, which is not here: {hint}") from error
    # It logs that it builds its font cache.
    logging.getLogger(mpl.__name__).setLevel(logging.ERROR)


@contextlib.contextmanager
def drawing(theme: Theme) -> Iterator[None]:
    """Draw and save within this block: it replaces the user's own settings of matplotlib."""
    require_matplotlib()
    import matplotlib as mpl  # noqa: PLC0415

    own: Any = {
        "font.family": ["DejaVu Sans"],  # comes with matplotlib, so that text has the same width everywhere
        "font.size": 9,
        "text.parse_math": False,  # a dollar in a name is a dollar
        "text.color": theme.ink,
        "figure.facecolor": theme.paper,
        "figure.dpi": DPI,
        "savefig.facecolor": theme.paper,
        "axes.facecolor": theme.paper,
        "axes.edgecolor": theme.quiet,
        "axes.labelcolor": theme.ink,
        "axes.titlelocation": "left",
        "axes.titlesize": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": theme.faint,
        "grid.linewidth": 0.6,
        "xtick.color": theme.quiet,
        "ytick.color": theme.quiet,
        "xtick.labelcolor": theme.ink,
        "ytick.labelcolor": theme.ink,
        "legend.frameon": False,
        "legend.fontsize": 8,
        "lines.linewidth": 1.4,
        "svg.hashsalt": "uprscope",
        "svg.fonttype": "path",
        "pdf.fonttype": 42,
        "path.simplify": True,
    }
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(own)
        yield


def save(figure: Figure, stream: IO[bytes], form: str) -> None:
    """Write a figure, without the dates and versions that would differ from run to run."""
    figure.savefig(stream, format=form, metadata=_METADATA[form])


def darkened(svg: bytes) -> bytes:
    """Return a light SVG in dark colours: replacing colours is much faster than drawing again."""
    names = [field.name for field in dataclasses.fields(Theme) if field.name not in ("series", "dark")]
    colours = {getattr(LIGHT, name): getattr(DARK, name) for name in names}
    colours |= dict(zip(LIGHT.series, DARK.series, strict=True))
    return re.sub(rb"#[0-9a-f]{6}\b", lambda found: colours.get(found[0].decode(), found[0].decode()).encode(), svg)


def format_of(path: str, chosen: str | None) -> str:
    """Return the format that was asked for, by option or by the file's name."""
    if chosen is not None:
        return chosen
    ending = path.rpartition(".")[2].lower() if "." in path else ""
    if ending in FORMATS:
        return ending
    raise UsageError(f"{path}: the name does not say which format (.png, .svg or .pdf, or --format)")


def label_text(text: str, most: int = 40) -> str:
    """Return text of a capture as a label: escaped outside ASCII, which the font may lack, and cut if it is long."""
    shown = safe_text(text).encode("ascii", "backslashreplace").decode()
    return shown if len(shown) <= most else shown[: most - 3] + "..."
