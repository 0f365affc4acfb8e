"""The page of the kept record, and the README's figure: nothing is measured here.

python -m bench.hpdc17.page
"""

from bench.hpdc17 import record
from bench.report import RESULTS
from howdah.report.contents import contents
from howdah.report.figures import FAMILIES, canvas
from howdah.report.figures.canvas import DrawnFigure, nearest
from howdah.report.material import Material
from howdah.report.page import render


def draw() -> None:
    runs, newest = record.load()
    material = Material(runs)
    found, drawn = contents(material, newest)
    (RESULTS / "hpdc17.html").write_text(render(found, drawn))
    figure = FAMILIES["throughput"](material, nearest(material.cells, "cubic"))
    if isinstance(figure, DrawnFigure):
        (RESULTS / "hpdc17.png").write_bytes(canvas.encode(figure.figure, "png", "hpdc17"))


if __name__ == "__main__":
    draw()
