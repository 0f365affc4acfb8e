"""The page in a real browser: it shows what is, and operates."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser, started
from controlled import Controlled, controlled
from selenium.webdriver.common.keys import Keys
from test_control_api import until

from howdah.control.http import tokens
from howdah.control.http.address import Listening
from howdah.control.http.application import page as served_page
from howdah.control.http.client import Client

FLOWS = ["background/base23", "images/base20", "images/base21", "replication/base22"]
PAGE_MAX_BYTES = 40_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started() as browser:
        yield browser


@pytest.fixture(scope="module")
def path() -> Iterator[Controlled]:
    with controlled() as here:
        yield here


@pytest.fixture
def live(browser: Browser, path: Controlled) -> Iterator[Browser]:
    """The page of a path where nothing is asked for, live; the browser finds nothing wrong with it."""
    client = Client(path.url)
    for each in client.status().asked:
        client.release(each.traffic_class, each.who)
    until(client, lambda status: status.settled and not status.asked)
    browser.open(path.url)
    browser.until(lambda: browser.text("#state") == "live")
    yield browser
    assert browser.complaints() == []


def rows(browser: Browser) -> dict[str, list[str]]:
    """The table, by flow."""
    found: list[list[str]] = browser.run(
        "return [...document.querySelectorAll('#flows tr')].map("
        "(row) => [...row.children].map((cell) => cell.textContent))"
    )
    return {cells[0]: cells[1:] for cells in found}


def share(browser: Browser, flow: str) -> str:
    return rows(browser)[flow][2]


def drawn(browser: Browser, flow: str) -> dict[str, str]:
    """The lines of one flow's chart."""
    return browser.run(
        """const found = {};
        for (const path of document.querySelectorAll(`figure[data-flow="${arguments[0]}"] path`))
            found[path.getAttribute('class')] = path.getAttribute('d') ?? '';
        return found;""",
        flow,
    )


def height(browser: Browser, flow: str) -> float:
    """Of the share's line at its right end above the ground of its chart, in pixels."""
    lines = drawn(browser, flow)
    ground = float(re.match(r"M\S+ (\S+)H", lines["grid"])[1])
    *_, last = re.findall(r"(?:M\S+ |V)([\d.]+)", lines["share"])
    return ground - float(last)


def test_it_is_one_small_file() -> None:
    content, headers = served_page()
    assert len(content) < PAGE_MAX_BYTES
    assert not re.search(rb"(?:src|href)=\"(?!data:,)", content)
    assert b"http://" not in content.replace(b"http://www.w3.org/2000/svg", b"")
    assert b"https://" not in content
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "unsafe" not in headers["Content-Security-Policy"]


def test_it_asks_nobody_but_the_controller(live: Browser, path: Controlled) -> None:
    asked: list[str] = live.run("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert set(asked) <= {f"{path.url}/v1/watch"}


def test_every_flow_is_shown(live: Browser) -> None:
    assert list(rows(live)) == FLOWS
    assert live.text("#policy") == "lsst"
    figures: list[str] = live.run(
        "return [...document.querySelectorAll('figure b')].map((heading) => heading.textContent)"
    )
    assert figures == ["all", *FLOWS]
    assert share(live, "background/base23") == "950 Mb/s"
    assert share(live, "images/base20") == "8 kb/s"


def test_shares_change_live_and_as_steps(live: Browser, path: Controlled) -> None:
    client = Client(path.url)
    live.until(lambda: drawn(live, "images/base20")["share"])
    client.ask("images", "camera", 60)
    live.until(lambda: share(live, "images/base20") == "470 Mb/s")
    assert share(live, "background/base23") == "10 Mb/s"
    assert "images, by camera" in live.text("#asked")
    live.until(lambda: rows(live)["images/base21"][5].startswith("4"))
    for flow, rate in (("images/base20", 470), ("replication/base22", 50)):
        assert height(live, flow) / height(live, "images/base21") == pytest.approx(rate / 470, abs=0.02)
    step = drawn(live, "images/base20")["share"]
    assert re.fullmatch(r"M[\d.]+ [\d.]+(H[\d.]+V[\d.]+)+", step)
    assert len(set(re.findall(r"(?:M\S+ |V)([\d.]+)", step))) == 2
    client.release("images", "camera")
    live.until(lambda: share(live, "images/base20") == "8 kb/s")


def test_the_line_of_all_is_the_sum(live: Browser) -> None:
    live.until(lambda: drawn(live, "")["sent"])
    assert re.search(r"sends [\d.]+ [GM]b/s, share 1 Gb/s", live.text("figure.all figcaption"))
    lines = drawn(live, "")
    ground, trusted = (float(re.match(r"M\S+ (\S+)H", lines[kind])[1]) for kind in ("grid", "trusted"))
    assert height(live, "") == pytest.approx(ground - trusted, abs=0.5)


def test_each_flow_may_have_its_own_scale(live: Browser) -> None:
    live.until(lambda: drawn(live, "replication/base22")["share"])
    before = height(live, "replication/base22")
    live.run("document.getElementById('same').click()")
    live.until(lambda: height(live, "replication/base22") > 5 * before)


def test_buttons_start_and_stop(live: Browser, path: Controlled) -> None:
    client = Client(path.url)
    live.click("Start images")
    (asked,) = until(client, lambda status: bool(status.asked)).asked
    assert (asked.traffic_class, asked.who, asked.until_unix_s) == ("images", "page", None)
    live.click("Stop images of page")
    until(client, lambda status: not status.asked)
    live.until(lambda: live.text("#asked") == "nothing")


def test_a_time_can_be_given(live: Browser, path: Controlled) -> None:
    live.run("document.getElementById('span').value = '60'")
    live.click("Start images")
    status = until(Client(path.url), lambda status: bool(status.asked))
    assert status.asked[0].until_unix_s == pytest.approx(status.unix_s + 60, abs=5)
    live.until(lambda: re.search(r"images, by page, \d\d s left", live.text("#asked")))


def test_keys_are_enough(live: Browser, path: Controlled) -> None:
    live.until(lambda: "Start images" in live.text("#starts"))
    for _ in range(10):
        live.driver.switch_to.active_element.send_keys(Keys.TAB)
        if live.driver.switch_to.active_element.text == "Start images":
            break
    live.driver.switch_to.active_element.send_keys(Keys.ENTER)
    until(Client(path.url), lambda status: bool(status.asked))
    assert live.driver.switch_to.active_element.text == "Start images"


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_and_can_be_read(live: Browser, width: int, scheme: str) -> None:
    live.size(width)
    live.prefer(scheme)
    assert live.run("return document.documentElement.scrollWidth") <= width
    captions = "[...document.querySelectorAll('figcaption *')]"
    cut = f"return {captions}.filter((words) => words.scrollWidth > words.offsetWidth)"
    assert live.run(cut) == []
    for selector in ("h1", "dt", "figcaption span", "thead th", "#state", ".legend"):
        assert contrast(live, selector) >= 4.5, selector
    ground = luminance(colour(live, "body", "backgroundColor"))
    assert (ground < 0.2) is (scheme == "dark")
    live.prefer("light")


def test_lines_are_told_apart_without_colour(live: Browser) -> None:
    live.until(lambda: drawn(live, "")["sent"])
    dashes = {
        kind: live.run(
            "return getComputedStyle(document.querySelector(arguments[0])).strokeDasharray",
            f"figure.all path.{kind}",
        )
        for kind in ("sent", "share", "trusted")
    }
    assert len(set(dashes.values())) == 3


def colour(browser: Browser, selector: str, key: str) -> list[float]:
    text: str = browser.run(
        "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]", selector, key
    )
    return [float(number) for number in re.findall(r"[\d.]+", text)]


def luminance(rgb: list[float]) -> float:
    """As WCAG 2.2 defines it."""
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (each / 255 for each in rgb[:3])
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(browser: Browser, selector: str) -> float:
    """Of a text to the page's ground."""
    both = (
        luminance(colour(browser, selector, "color")),
        luminance(colour(browser, "body", "backgroundColor")),
    )
    return (max(both) + 0.05) / (min(both) + 0.05)


def test_what_is_old_is_shown_as_old_and_comes_back(browser: Browser) -> None:
    with controlled() as here:
        browser.open(here.url)
        browser.until(lambda: browser.text("#state") == "live")
    browser.until(lambda: re.search(r"this is \d+ s old", browser.text("#state")))
    assert browser.run("return getComputedStyle(document.getElementById('charts')).opacity") < "1"
    assert list(rows(browser)) == FLOWS
    with controlled(Listening(address=here.url.removeprefix("http://"))):
        browser.until(lambda: browser.text("#state") == "live")
    browser.driver.get("about:blank")


def test_it_asks_for_a_token_where_one_is_needed(browser: Browser, tmp_path: Path) -> None:
    read, reader = tokens.make("wall", "read")
    operate, operator = tokens.make("night", "operate")
    file = tmp_path / "tokens.toml"
    file.write_text(reader + operator)
    with controlled(Listening(address="127.0.0.1:0", tokens=file)) as here:
        browser.open(here.url)
        browser.until(lambda: browser.text("#state") == "a token is needed")
        assert rows(browser) == {}
        browser.write("#token", "wrong\n")
        browser.until(lambda: browser.text("#entry-why") == "the token is not known here")
        browser.write("#token", f"{read}\n")
        browser.until(lambda: browser.text("#state") == "live")
        assert list(rows(browser)) == FLOWS
        assert browser.run("return document.getElementById('asking').hidden")
        browser.run("sessionStorage.setItem('howdah-token', arguments[0]); location.reload()", operate)
        browser.click("Start images")
        until(Client(here.url, operate), lambda status: bool(status.asked))
        browser.driver.get("about:blank")
