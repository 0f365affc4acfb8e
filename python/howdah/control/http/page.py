"""The page: its parts put together as one file that asks for nothing else but the API."""

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files

_STYLE = "style.css"
_SCRIPTS = ("stream.js", "history.js", "chart.js", "table.js", "page.js")
"""In this order; each uses those before it."""


@cache
def page() -> tuple[bytes, dict[str, str]]:
    """The file, and the headers that let it run its own script and style and no others."""
    folder = files("howdah.control.http").joinpath("web")
    style = folder.joinpath(_STYLE).read_text()
    script = '"use strict";\n' + "".join(folder.joinpath(each).read_text() for each in _SCRIPTS)
    frame = folder.joinpath("page.html").read_text()
    content = frame.replace("/* style */", style).replace("/* script */", script)
    policy = {
        "default-src": "'none'",
        "style-src": _digest(style),
        "script-src": _digest(script),
        "connect-src": "'self'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    said = "; ".join(f"{key} {value}" for key, value in policy.items())
    return content.encode(), {"Content-Security-Policy": said, "X-Frame-Options": "DENY"}


def _digest(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
