"""The page: one file that needs nothing else, with every figure or the reason why it is not there."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from samples import howdah, run, sample
from sweeps import Point, joined, sweep
from test_report_statements import THREE, steady

from howdah import HowdahError
from howdah.archive import Archive
from howdah.archive.runs import Runs
from howdah.cli.results import FIGURES
from howdah.report.contents import Contents, contents
from howdah.report.figures import COUNTERPARTS, FAMILIES, build, canvas
from howdah.report.figures.canvas import DrawnFigure, FigureNeeds, everything
from howdah.report.material import Material
from howdah.report.page import render
from howdah.report.statements import STATEMENTS
from howdah.values.link import symmetric
from howdah.values.record import Swept
from howdah.words.results import report_in_words


def truth(point: Point) -> float:
    window_bps = point.streams * point.buffer_bytes * 8 / point.rtt_s
    return min(9.4e9 * (1 - point.rtt_s), window_bps)


@pytest.fixture(scope="module")
def runs() -> Runs:
    trace = steady(9e9, ramp_s=5)
    return sweep(truth, controls=THREE, streams=(1, 10), buffers=(244e3, 1e9), trace=trace, repeats=2)


@pytest.fixture(scope="module")
def made(runs: Runs) -> tuple[Contents, dict[str, DrawnFigure]]:
    return contents(Material(runs), run(link=symmetric(10**10, 10**8)))


@pytest.fixture(scope="module")
def page(made: tuple[Contents, dict[str, DrawnFigure]]) -> str:
    return render(*made)


NUMBERS = ("1 stream", "4 streams")


class Reader(HTMLParser):
    """What a browser would fetch, where links go, and whether every element is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name == "src" or (name.endswith("href") and tag in {"link", "script", "image"}):
                self.fetched.append(value or "")
            elif name.endswith("href"):
                self.links.append(value or "")
            elif name == "id":
                self.ids.append(value or "")
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_needs_nothing_but_itself(page: str) -> None:
    read = Reader(page)
    assert read.open == []
    assert read.fetched == []
    assert "<script" not in page
    assert "@import" not in page
    assert all(found.startswith("#") for found in re.findall(r"url\((.*?)\)", page))
    assert read.links
    assert {link.removeprefix("#") for link in read.links} <= set(read.ids)
    assert len(read.ids) == len(set(read.ids))


def test_every_figure_is_there_or_says_why_not(
    page: str, made: tuple[Contents, dict[str, DrawnFigure]]
) -> None:
    found, drawn = made
    assert [each.number for each in found.figures] == [each.number for each in COUNTERPARTS]
    assert page.count("<svg") == len(drawn)
    for each in found.figures:
        assert f'id="figure-{each.number}"' in page
        assert (each.lacking is None) == (each.number in drawn)
        assert each.ours or each.lacking
    (sizes,) = [each for each in found.figures if each.lacking]
    assert sizes.lacking == (
        "needs one configuration measured with two transfer sizes; measure it with: howdah sweep PLAN.toml, "
        "for which howdah's source has scenarios/hpdc17-sizes.toml and howdah sweep --help says how to write "
        "another"
    )


def test_a_figure_without_its_congestion_control_names_it() -> None:
    material = Material(sweep(truth))
    lacking = {each.number: build(each, material) for each in COUNTERPARTS if each.control == "htcp"}
    assert list(lacking) == ["3"]
    assert isinstance(lacking["3"], FigureNeeds)
    assert lacking["3"].needs.startswith("needs runs of H-TCP; measure it with: howdah sweep PLAN.toml, for ")


def test_a_title_says_what_is_shown_and_what_it_stands_in_for(
    made: tuple[Contents, dict[str, DrawnFigure]],
) -> None:
    other = contents(Material(sweep(truth, streams=(4,), buffers=(64e6,), rtts=(0.005, 0.05))), run())[0]
    titles = {each.number: each.title for each in other.figures}
    assert titles["3"] == "H-TCP: RTT, streams and buffers", "nothing is shown"
    assert titles["5"] == "CUBIC, 64 MB buffers (in place of large ones): RTT, streams and connections"
    assert titles["8"] == (
        "Box plots: CUBIC, 4 streams (in place of 10), "
        "64 MB buffers (in place of default, normal and large ones)"
    )
    assert titles["11"].endswith(", 50 ms (in place of 45.6 ms)")
    assert titles["12"].endswith(", 5 and 50 ms (in place of 11.8 and 183 ms)")
    of_paper = {each.number: each.title for each in made[0].figures}
    assert of_paper["5"] == "CUBIC, large buffers: RTT, streams and connections"
    assert of_paper["11"] == "Traces: CUBIC, large buffers, 45.6 ms"
    assert of_paper["8"].startswith("Box plots: CUBIC, 10 streams, 244 KB and 1 GB buffers (in place of def")


def test_every_statement_of_a_figure_is_one() -> None:
    known = {each.key for each in STATEMENTS}
    named = {key for each in COUNTERPARTS for key in each.statements}
    assert named <= known


def test_scenarios_that_are_named_are_there() -> None:
    for each in COUNTERPARTS:
        assert (Path(__file__).parents[2] / "scenarios" / each.plan).is_file()


def test_drawings_change_their_colours_with_the_page(page: str) -> None:
    drawings = "".join(re.findall(r"<svg.*?</svg>", page, re.DOTALL))
    assert not {colour for colour in canvas.PALETTE if colour in drawings}
    named = set(re.findall(r"var\(--(\w+)\)", drawings))
    styles = re.findall(r":root \{(.*?)\}", page)
    assert len(styles) >= 2
    for style in styles[:2]:
        assert named <= set(re.findall(r"--(\w+):", style))


def test_drawings_lie_on_the_page_itself(runs: Runs) -> None:
    material = Material(runs.where(congestion_control="cubic"))
    drawn = FAMILIES["profile"](material, everything(material.cells))
    assert isinstance(drawn, DrawnFigure)
    assert "#ffffff" not in canvas.inline(drawn.figure, "one", "a profile")
    assert b"#ffffff" in canvas.encode(drawn.figure, "svg", "one")


@pytest.mark.parametrize("family", FAMILIES)
def test_axes_have_names_with_their_units(family: str, runs: Runs) -> None:
    chosen = runs.where(congestion_control="cubic", streams=10, buffer_bytes=1e9, rtt_s=[0.0118, 0.183])
    if family in {"fits", "transitions"}:
        chosen = runs.where(congestion_control="cubic", buffer_bytes=1e9)
    material = Material(chosen)
    drawn = FAMILIES[family](material, everything(material.cells))
    if family == "sizes":
        assert isinstance(drawn, FigureNeeds)
        return
    assert isinstance(drawn, DrawnFigure)
    for axis in drawn.figure.axes:
        assert axis.get_xlabel() == "streams" or re.search(r", (ms|s|Gb/s|nats)|RTT, ms", axis.get_xlabel())
    labels = [axis.get_ylabel() for axis in drawn.figure.axes if axis.get_ylabel()]
    assert labels
    assert all(label == "streams" or re.search(r"(Gb/s|ms|nats in [\d.]+ s)$", label) for label in labels)


@pytest.mark.parametrize(("kind", "begins"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_the_same_figure_gives_the_same_bytes(kind: str, begins: bytes, runs: Runs) -> None:
    material = Material(runs.where(congestion_control="cubic"))
    first, second = (
        canvas.encode(drawn.figure, kind, "profile")
        for _ in range(2)
        if isinstance(drawn := FAMILIES["profile"](material, everything(material.cells)), DrawnFigure)
    )
    assert first == second
    assert first.startswith(begins)
    if kind == "svg":
        ElementTree.fromstring(first)  # noqa: S314


def test_a_legend_names_what_differs_and_no_more() -> None:
    def labels(controls: tuple[str, ...], family: str) -> tuple[str, list[str]]:
        made = Material(
            sweep(truth, controls=controls, streams=(1, 4), buffers=(1e9,), rtts=(0.1,), trace=steady(9e9))
        )
        drawn = FAMILIES[family](made, everything(made.cells))
        assert isinstance(drawn, DrawnFigure)
        (legend,) = filter(None, (axis.get_legend() for axis in drawn.figure.axes))
        return legend.get_title().get_text(), [each.get_text() for each in legend.get_texts()]

    for family in ("poincare", "exponents"):
        assert labels(("cubic",), family) == ("streams", ["1", "4"])
        title, names = labels(("cubic", "htcp"), family)
        assert title == ""
        assert sorted(names) == [
            f"{each}, {streams}, 1 GB" for each in ("CUBIC", "H-TCP") for streams in NUMBERS
        ]


def test_rates_above_those_of_the_link_are_explained() -> None:
    def said(rate_bps: float, family: str) -> str:
        made = Material(sweep(truth, streams=(4,), buffers=(1e9,), rtts=(0.1,), trace=steady(rate_bps)))
        drawn = FAMILIES[family](made, everything(made.cells))
        assert isinstance(drawn, DrawnFigure)
        return " ".join(drawn.shows)

    for family in ("poincare", "traces"):
        assert "Rates above the link's 10 Gb/s are those of acknowledgements" in said(10.5e9, family)
        assert "Rates above" not in said(9e9, family)


def test_lines_are_told_apart_without_colour() -> None:
    styles = [
        (style["linestyle"], style["marker"])
        for style, _ in zip(canvas.line_styles(), range(5), strict=False)
    ]
    assert len(set(styles)) == len(styles)


def test_late_runs_are_counted_and_left_out(runs: Runs) -> None:
    late = sweep(truth, late=True, rtts=(0.366,), repeats=1)
    material = Material(joined(runs, late))
    assert len(material.all) == len(runs)
    assert material.late[0.366].late == len(late)
    assert material.late[0.183].late == 0


def test_nothing_that_counts_is_an_error() -> None:
    with pytest.raises(HowdahError, match=r"none was memory to memory.*howdah sweep HOST"):
        Material(sweep(truth, memory=False))


def fill(home: Path, count: int = 6) -> None:
    archive = Archive(home / "howdah" / "records")
    link = symmetric(10**10, 10**8)
    for number in range(count):
        samples = [
            sample(t_s=tenth / 10, stream=stream, bytes_acked=tenth * 10**7)
            for tenth in range(1, 101)
            for stream in range(2)
        ]
        made = run(number, link=link, buffer_bytes=10**9, rate_bps=8e9 + number * 1e7, samples=samples)
        archive.save(
            msgspec.structs.replace(made, sweep=Swept(id="tiny-0a", name="tiny", cell="c", repeat=number))
        )


def test_the_command_makes_the_page_of_a_tiny_archive(tmp_path: Path) -> None:
    fill(tmp_path)
    file = tmp_path / "page.html"
    done = howdah("report", "--sweep", "tiny", "-o", str(file), XDG_DATA_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert f"{file}: " in done.stdout
    read = Reader(file.read_text())
    assert read.fetched == []
    assert {f"figure-{each.number}" for each in COUNTERPARTS} <= set(read.ids)


def test_the_command_prints_what_the_page_says(tmp_path: Path) -> None:
    fill(tmp_path)
    done = howdah("report", "--json", XDG_DATA_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    found = msgspec.json.decode(done.stdout, type=Contents)
    assert [each.key for each in found.statements] == [each.key for each in STATEMENTS]
    assert found.path == "lab 10 Gb/s"
    assert not (Path.cwd() / "report.html").exists()


def test_page_and_json_do_not_share_standard_output(tmp_path: Path) -> None:
    fill(tmp_path)
    done = howdah("report", "--json", "-o", "-", XDG_DATA_HOME=str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert "--json and the page would both go to standard output; give -o a file" in done.stderr


def test_one_agrees_and_two_agree(made: tuple[Contents, dict[str, DrawnFigure]]) -> None:
    agrees, differs = (
        next(each for each in made[0].statements if each.verdict == verdict)
        for verdict in ("agrees", "differs")
    )
    few = msgspec.structs.replace(made[0], statements=[agrees, agrees, differs])
    assert report_in_words(few, None).splitlines()[1] == "of 3 statements of the papers 2 agree, 1 differs"


def test_the_command_draws_one_figure_of_a_selection(tmp_path: Path) -> None:
    fill(tmp_path)
    file = tmp_path / "boxes.png"
    done = howdah("profile", "plot", "boxes", str(file), "--rtt", "100ms", XDG_DATA_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "CUBIC, 2 streams, 1 GB at 100 ms" in done.stdout
    assert file.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["boxes", "a.gif"], "a.gif: a figure is written as .svg or .png; name it a.svg"),
        (["fits", "a.svg"], "no figure fits of this selection: it needs a configuration at 5 RTTs or more"),
        (["boxes", "a.svg", "--rtt", "5ms"], "no runs with the RTT 5ms; there are runs with 100ms"),
        (["bars", "a.svg"], "see: howdah profile plot --help"),
    ],
)
def test_mistakes_of_plot_are_one_line(tmp_path: Path, arguments: list[str], says: str) -> None:
    fill(tmp_path, 2)
    done = howdah("profile", "plot", *arguments, XDG_DATA_HOME=str(tmp_path))
    assert done.returncode != 0
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_command_offers_every_family() -> None:
    assert set(FIGURES) == set(FAMILIES)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--sweep", "other"], "no runs with the sweep other; there are runs with tiny"),
        (["--path", "dtn9"], "no runs with the path dtn9; there are runs with lab 10 Gb/s"),
        (
            ["-o", "/nowhere/page.html"],
            "cannot write /nowhere/page.html: No such file or directory; give another",
        ),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, arguments: list[str], says: str) -> None:
    fill(tmp_path, 1)
    done = howdah("report", *arguments, XDG_DATA_HOME=str(tmp_path))
    assert done.returncode == 1
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_empty_archive_says_what_to_do(tmp_path: Path) -> None:
    done = howdah("report", XDG_DATA_HOME=str(tmp_path))
    assert done.returncode == 1
    assert "howdah sweep HOST" in done.stderr
    assert done.stderr.count("\n") == 1


def test_without_matplotlib_the_line_that_mends_it(tmp_path: Path) -> None:
    fill(tmp_path, 1)
    code = (
        "import sys\nsys.modules['matplotlib'] = None\nsys.argv = ['howdah', 'report']\n"
        "from howdah.__main__ import main\nsys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"XDG_DATA_HOME": str(tmp_path), "PYTHONPATH": ":".join(sys.path)},
    )
    assert done.returncode == 1
    assert done.stderr == (
        "howdah: figures need matplotlib; install it with: pip install 'WHEEL[figures]', "
        "with the WHEEL of docs/install.md\n"
    )
