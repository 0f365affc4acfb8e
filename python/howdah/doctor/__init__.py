"""What a host can and cannot do: facts are gathered in one file, judged in another, shown in a third."""
