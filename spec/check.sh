#!/usr/bin/env bash
# Checks the model with spin: bash spec/check.sh [small|full]
#
# What should hold must be searched to the end without an error. What should fail must fail, and by the assertion that is named:
# a model that can't fail shows nothing. It needs spin and gcc, and keeps nothing.
set -euo pipefail

readonly size=${1:-full}
readonly seconds=900   # for one search
readonly megabytes=4096 # for one search

cd "$(dirname "${BASH_SOURCE[0]}")"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# search NAME FLAG... explores the model with these definitions; what pan says goes to $scratch/NAME/out.
search() {
  local name=$1
  shift
  mkdir "$scratch/$name"
  cp lock.pml "$scratch/$name"
  (
    cd "$scratch/$name"
    spin "$@" -a lock.pml
    # COLLAPSE keeps states in a smaller form and loses none.
    gcc -O2 -w -DSAFETY -DCOLLAPSE "-DMEMLIM=$megabytes" -o pan pan.c
    timeout --foreground "$seconds" ./pan -m100000 -w22 -n
  ) >"$scratch/$name/out" 2>&1 || true # pan's verdict is in what it says
}

states() { awk '/states, stored/ { print $1; exit }' "$1"; }

# bad NAME TEXT tells what pan said and ends everything.
bad() {
  printf '%s: %s\n' "$1" "$2" >&2
  head -n 30 "$scratch/$1/out" >&2
  exit 1
}

# holds NAME FLAG... wants no error in all that can be reached.
holds() {
  local name=$1 from=$SECONDS out=$scratch/$1/out
  search "$@"
  grep -q 'errors: 0' "$out" || bad "$name" 'does not hold, or was not searched'
  ! grep -qE 'search not completed|max search depth too small|out of memory|interrupted' "$out" || bad "$name" 'was not searched to the end'
  printf '%-22s holds: %s states, %d s\n' "$name" "$(states "$out")" "$((SECONDS - from))"
}

# fails NAME ASSERTION FLAG... wants a counterexample against the assertion, which is a pattern for what pan calls it.
fails() {
  local name=$1 assertion=$2 from=$SECONDS out=$scratch/$1/out
  shift 2
  search "$name" "$@"
  grep -qE "assertion violated .*$assertion" "$out" || bad "$name" "spin found nothing against $assertion"
  printf '%-22s fails, as it should: %s states, %d s\n' "$name" "$(states "$out")" "$((SECONDS - from))"
}

readonly exclusion='holds\[0\]\+holds\[1\]' monotonic='>highest'

holds_small() {
  holds attempts
  holds guard -DATTEMPTS=2 -DCRASHES=2
  holds extension -DATTEMPTS=2 -DEXTENSIONS=1
  holds fence -DATTEMPTS=2 -DFENCES=2
}

holds_full() {
  holds_small
  holds extension-forgotten -DATTEMPTS=2 -DEXTENSIONS=1 -DCRASHES=1
  holds guard-long -DCRASHES=1
}

holds_more() {
  holds fence-by-clock -DATTEMPTS=2 -DCRASHES=1 -DSKEW=1
  holds clients -DCLIENTS=3
}

fails_small() {
  fails no-guard "$exclusion" -DATTEMPTS=2 -DCRASHES=1 -DNO_GUARD
  fails reused-token "$exclusion" -DREUSED_TOKEN
  fails drift-forgotten "$exclusion" -DATTEMPTS=2 -DALLOWANCE=0
  fails from-reply "$exclusion" -DATTEMPTS=2 -DFROM_REPLY
  fails fence-by-max "$monotonic" -DFENCES=1 -DFENCE_MAX
  fails fence-forgotten "$monotonic" -DATTEMPTS=2 -DCRASHES=1 -DFENCES=2
  fails fence-clocks-apart "$monotonic" -DATTEMPTS=2 -DCRASHES=1 -DSKEW=2
}

case $size in
small)
  holds_small &
  one=$!
  fails_small &
  other=$!
  wait "$one" && wait "$other"
  ;;
full)
  holds_full &
  one=$!
  (holds_more && fails_small) &
  other=$!
  wait "$one" && wait "$other"
  ;;
*)
  echo "usage: $0 [small|full]" >&2
  exit 2
  ;;
esac
