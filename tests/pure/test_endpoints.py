import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from howdah import HowdahError
from howdah.remote.endpoints import parse, route

HOSTS = st.from_regex(r"([a-z][a-z0-9]{0,7}@)?[a-z][a-z0-9.\-]{0,20}", fullmatch=True)
NAMES = st.binary(min_size=1, max_size=40).filter(lambda b: b"\0" not in b).map(os.fsdecode)
REMOTE_PATHS = NAMES.filter(lambda name: not name.startswith(("~", ":")) and "::" not in name)


@given(HOSTS, REMOTE_PATHS)
def test_remote_names_keep_their_bytes(host: str, path: str) -> None:
    assert parse(f"{host}:{path}") == (host, os.fsencode(path))


@given(NAMES)
def test_a_leading_dot_or_slash_makes_any_name_local(path: str) -> None:
    assert parse(f"./{path}") == (None, os.fsencode(f"./{path}"))
    assert parse(f"/{path}") == (None, os.fsencode(f"/{path}"))


@given(NAMES)
def test_any_name_parses_or_is_refused_in_one_line(argument: str) -> None:
    try:
        endpoint = parse(argument)
    except HowdahError as error:
        assert "\n" not in str(error)
    else:
        if endpoint.host is None:
            assert endpoint.path == os.fsencode(argument)
        else:
            assert not endpoint.host.startswith("-")


@pytest.mark.parametrize(
    ("argument", "host", "path"),
    [
        ("dtn2:/archive/", "dtn2", b"/archive/"),
        ("me@dtn2:", "me@dtn2", b"."),
        ("dtn2:~", "dtn2", b"."),
        ("dtn2:~/", "dtn2", b"./"),
        ("dtn2:~/run 42", "dtn2", b"run 42"),
        ("dtn2:a:b", "dtn2", b"a:b"),
        ("[::1]:/p", "::1", b"/p"),
        ("me@[fe80::1%eth0]:p/[x]:y", "me@fe80::1%eth0", b"p/[x]:y"),
        ("cafe:a:b", "cafe", b"a:b"),
        ("ssh:/p", "ssh", b"/p"),
        ("dtn2://p", "dtn2", b"//p"),
        ("./::1", None, b"./::1"),
        ("a/b:c", None, b"a/b:c"),
        ("[a]", None, b"[a]"),
    ],
)
def test_examples(argument: str, host: str | None, path: bytes) -> None:
    assert parse(argument) == (host, path)


@pytest.mark.parametrize(
    ("argument", "says"),
    [
        ("-oProxyCommand=x:/p", "does not name a host"),
        ("me@:/p", "does not name a host"),
        ("a[::1]:b", "does not name a host"),
        ("a b:/p", "./NAME"),
        ("[::1:/p", "not closed"),
        ("dtn2:~you/x", "~you is not expanded"),
        (
            ":/tmp",
            r"^:/tmp does not name a host; write \[user@\]host:path, or write a local name .* \./NAME$",
        ),
        ("2001:db8::7:/d", r"needs brackets; write \[2001:db8::7\]:/d, or"),
        ("me@2001:db8::7:", r"needs brackets; write me@\[2001:db8::7\]:PATH, or"),
        ("1:2:3:4:5:6:7:8:d/e", r"write \[1:2:3:4:5:6:7:8\]:d/e, or"),
        ("fe80::1%eth0:x", r"write \[fe80::1%eth0\]:x, or"),
        ("::1", r"write \[::1\]:PATH, or"),
        ("ssh://h/p", "^ssh://h/p is a URL; write h:/p$"),
        ("scp://me@h:2222/p/q", "write me@h:p/q, and give the port with -e 'ssh -p 2222'$"),
        ("sftp://h//p", "write h:/p$"),
        ("dtn2::module/x", "an rsync daemon, .* write host:path to go over ssh$"),
    ],
)
def test_refusals_say_what_to_write(argument: str, says: str) -> None:
    with pytest.raises(HowdahError, match=says):
        parse(argument)


def test_push_and_pull() -> None:
    assert route(["a", "b", "far:d"], memory=False) == ("push", "far", [b"a", b"b"], b"d", True, None, False)
    assert route(["far:a", "d"], memory=False) == ("pull", "far", [b"a"], b"d", False, None, False)
    assert route(["far:a", "d/"], memory=False) == ("pull", "far", [b"a"], b"d/", True, None, False)
    assert route(["far:"], memory=True) == ("push", "far", [], b"", False, None, False)
    # From one far host to another.
    assert route(["x:a", "x:b", "me@y:~/c"], memory=False) == (
        "push",
        "me@y",
        [b"a", b"b"],
        b"c",
        True,
        "x",
        False,
    )


@pytest.mark.parametrize(
    ("arguments", "memory", "says"),
    [
        (["a"], False, "a source and a destination"),
        (["a", "b"], False, "cp -a"),
        (["x:a", "x:b"], False, "both source and destination are on x; copy there: ssh x cp -a"),
        (["a", "x:b", "y:c"], False, "more than one host"),
        (["x:a", "y:b", "c"], False, "more than one host"),
        (["x:a", "b", "c"], False, "more than one host"),
        (["", "x:b"], False, "is empty"),
        (["x:/tmp"], True, "no files"),
        (["a", "x:"], True, "no files"),
    ],
)
def test_lines_that_make_no_copy(arguments: list[str], memory: bool, says: str) -> None:
    with pytest.raises(HowdahError, match=says):
        route(arguments, memory=memory)
