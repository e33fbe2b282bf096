"""A report's panels, drawn side by side with matplotlib."""

from pathlib import Path

from simulator.experiments.experiment import Report


def draw(report: Report, title: str, path: Path) -> bool:
    """Write the figure; False where matplotlib is not installed or there is nothing to draw."""
    if not report.panels:
        return False
    try:
        import matplotlib as mpl  # noqa: PLC0415 - an optional dependency
    except ImportError:
        return False
    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    count = len(report.panels)
    figure, axes = plt.subplots(1, count, figsize=(6 * count, 4.5), squeeze=False)
    for axis, panel in zip(axes[0], report.panels, strict=True):
        for curve in panel.curves:
            if any(curve.spread):
                axis.errorbar(curve.x, curve.y, curve.spread, label=curve.name, capsize=2)
            else:
                axis.plot(curve.x, curve.y, label=curve.name)
        axis.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
        if panel.falling:
            axis.invert_xaxis()
        axis.grid(visible=True, alpha=0.3)
        axis.legend()
    figure.suptitle(title)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return True
