"""Judging what a host can do: facts are gathered in one file, judged in another, shown in a third."""
