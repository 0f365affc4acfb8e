#!/bin/sh
# commit.sh: prints the commit that the tree is of, with -dirty where a file differs from it. In a tree without git, as
# `git archive` makes, the commit that git wrote here; nothing where that is not known either.
set -eu
cd "$(dirname "$0")/.."
archived='$Format:%h$'
# A tree may have been unpacked inside another repository.
if [ "$(git rev-parse --show-toplevel 2>/dev/null)" = "$(pwd -P)" ]; then
    exec git describe --always --dirty --exclude='*'
fi
case $archived in
    '$'*) ;;
    *) echo "$archived" ;;
esac
