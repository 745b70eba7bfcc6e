#!/usr/bin/env bash
# Checks the models with spin: bash spec/check.sh [small|full]
#
# What should hold must be searched to the end without an error. What should fail must fail, and by the assertion that is named; and
# what should happen must happen: a model that can't fail, or in which nothing happens, shows nothing. It needs spin and gcc, and keeps
# nothing.
set -euo pipefail

readonly size=${1:-full}
readonly seconds=${SPEC_SECONDS:-900}      # for one search
readonly megabytes=${SPEC_MEGABYTES:-2048} # for one search; two run at a time
readonly depth=${SPEC_DEPTH:-100000}       # of one search

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
model=lock.pml
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 143' TERM INT

# search NAME COMPILING RUNNING FLAG... explores $model with these definitions, options of gcc and of
# pan. What pan says goes to $scratch/NAME/out, each error once.
search() {
  local name=$1 compiling=$2 running=$3
  shift 3
  mkdir "$scratch/$name"
  cd "$scratch/$name"
  cp "$here/$model" .
  { spin "$@" -a "$model" && gcc -w -DSAFETY "-DMEMLIM=$megabytes" $compiling -o pan pan.c; } >out 2>&1 || return 0
  { timeout --foreground --kill-after=5 "$seconds" ./pan "-m${deep:-$depth}" -w22 -n $running 2>&1 || true; } |
    sed -E 's/^pan:[0-9]+: /pan: /; s/ \(at depth [0-9]+\)$//' | awk '!/^pan: / || !said[$0]++' >>out
}

# bad NAME TEXT tells what pan said and ends everything.
bad() {
  printf '%s: %s\n' "$1" "$2" >&2
  head -n 30 "$scratch/$1/out" >&2
  exit 1
}

# finished NAME: the search came to its end, nothing was left out, and there was no error but (in a search that goes on behind errors)
# what is said to have happened.
finished() {
  local out=$scratch/$1/out
  grep -q '^Full statespace search for:' "$out" && grep -q 'states, stored' "$out" || bad "$1" 'was not searched'
  ! grep -qiE 'not completed|truncated|too small|too large|out of memory|memlim|interrupted|aborting|error:' "$out" ||
    bad "$1" 'was not searched to the end'
}

# tell NAME FROM TEXT
tell() { printf '%-20s %s: %s states, %d s\n' "$1" "$3" "$(awk '/states, stored/ { print $1; exit }' "$scratch/$1/out")" "$((SECONDS - $2))"; }

# holds NAME FLAG... wants no error in all that can be reached. COLLAPSE keeps states in a smaller form and loses none.
holds() {
  local name=$1 from=$SECONDS
  shift
  (search "$name" '-O1 -DCOLLAPSE' '' "$@")
  grep -q 'errors: 0$' "$scratch/$name/out" || bad "$name" 'does not hold, or was not searched'
  finished "$name"
  tell "$name" "$from" holds
}

# happens NAME EVENTS FLAG... wants exactly these events, and no other assertion violated. pan goes on behind errors.
happens() {
  local name=$1 events=$2 from=$SECONDS
  shift 2
  (search "$name" '-O0 -DCOLLAPSE' -c0 -DWITNESS "$@")
  finished "$name"
  [[ $(sed -n 's/^pan: assertion violated //p' "$scratch/$name/out" | LC_ALL=C sort | xargs) == "$events" ]] ||
    bad "$name" "what happens is something else than: $events"
  tell "$name" "$from" "happens ($events)"
}

# fails NAME ASSERTION FLAG... wants a counterexample against the assertion, which is a pattern for what pan calls it. breadth looks for
# the shortest one, which is sometimes faster.
fails() { fails_in '-O0 -DCOLLAPSE' "$@"; }
breadth_fails() { fails_in '-O0 -DBFS' "$@"; }

fails_in() {
  local compiling=$1 name=$2 assertion=$3 from=$SECONDS
  shift 3
  (search "$name" "$compiling" '' "$@")
  grep -qE "^pan: assertion violated .*$assertion" "$scratch/$name/out" || bad "$name" "spin found nothing against $assertion"
  tell "$name" "$from" 'fails, as it should'
}

readonly exclusion='holds\[0\]\+holds\[1\]' monotonic='>highest' told='robbed' alone='holders==0'
readonly single='holds\[\(1-c\)\]' named='key\[n\]==1'

# Whatever happens in these happens in the searches below, which allow more.
happens_all() {
  happens guard-at-work 'belated forgotten rejoined succession' -DATTEMPTS=2 -DCRASHES=1
  happens extension-at-work 'belated counted extension refill' -DATTEMPTS=1 -DEXTENSIONS=2
  happens shorter-at-work 'belated counted extension refill unshortened' -DATTEMPTS=1 -DEXTENSIONS=2 -DSHORTER=1
  happens fence-at-work 'belated fenced stale succession' -DATTEMPTS=2 -DFENCES=2
}

holds_small() {
  holds attempts
  holds guard -DATTEMPTS=2 -DCRASHES=3
  holds extension -DATTEMPTS=2 -DEXTENSIONS=1
  holds fence -DATTEMPTS=2 -DFENCES=2
}

holds_told() {
  holds told -DATTEMPTS=2 -DEXTENSIONS=1 -DCRASHES=2 -DNO_GUARD -DTOLD
}

holds_full() {
  holds_small
  holds shorter -DATTEMPTS=2 -DEXTENSIONS=1 -DSHORTER=1
  holds extension-forgotten -DATTEMPTS=2 -DEXTENSIONS=1 -DCRASHES=1
  holds extension-twice -DATTEMPTS=2 -DEXTENSIONS=2
  holds guard-long -DCRASHES=1
}

holds_more() {
  holds_told
  holds fence-extended -DATTEMPTS=2 -DEXTENSIONS=1 -DFENCES=2
  holds fence-by-clock -DATTEMPTS=2 -DCRASHES=1 -DSKEW=1
  holds clients -DCLIENTS=3
}

# Fences do not depend on time, so that the searches for two of them have less of it.
fails_all() {
  fails no-quorum "$exclusion" -DATTEMPTS=2 -DQUORUM=1
  fails reused-token "$exclusion" -DREUSED_TOKEN
  fails from-reply "$exclusion" -DATTEMPTS=2 -DFROM_REPLY
  fails drift-forgotten "$exclusion" -DATTEMPTS=2 -DALLOWANCE=0
  breadth_fails outlives "$exclusion" -DATTEMPTS=2 -DEXTENSIONS=1 -DOUTLIVES
  fails late-shortens "$exclusion" -DATTEMPTS=2 -DEXTENSIONS=1 -DSHORTER=1 -DSHORTENS
  fails refilled-counts "$told" -DATTEMPTS=2 -DEXTENSIONS=1 -DCRASHES=2 -DNO_GUARD -DTOLD -DREFILLED_COUNTS
  fails foreign-release "$exclusion" -DFOREIGN_RELEASE
  fails no-guard "$exclusion" -DATTEMPTS=2 -DCRASHES=1 -DNO_GUARD
  fails short-guard "$exclusion" -DATTEMPTS=2 -DCRASHES=1 -DQUARANTINE=1
  fails first-use "$exclusion" -DATTEMPTS=2 -DCRASHES=3 -DFIRST_USE
  fails fence-by-max "$monotonic" -DFENCES=1 -DFENCE_MAX -DTTL=1 -DALLOWANCE=0 -DDRIFT=0
  fails fence-raised-ahead "$monotonic" -DATTEMPTS=2 -DFENCES=2 -DRAISE_AHEAD
  fails fence-forgotten "$monotonic" -DATTEMPTS=2 -DCRASHES=1 -DFENCES=2 -DTTL=1 -DALLOWANCE=0 -DDRIFT=0
  fails fence-clocks-apart "$monotonic" -DATTEMPTS=2 -DCRASHES=1 -DSKEW=1 -DTTL=1 -DALLOWANCE=0 -DDRIFT=0
}

# Layouts of a move, old and new, as bits: one node becomes another, or three; one of three is replaced, or all; two are added, or one.
readonly moved='-DOLD=1 -DNEW=2' more='-DOLD=1 -DNEW=7' replaced='-DOLD=7 -DNEW=11' apart='-DOLD=7 -DNEW=56'
readonly added='-DOLD=7 -DNEW=31' next='-DOLD=7 -DNEW=15'

move_small() {
  local model=move.pml deep=1000000
  holds move $replaced
  holds move-ended $replaced -DENDS -DWAIT=0 -DBACK=0
  holds move-extension $more -DEXTENSIONS
  holds move-fence $moved -DFENCES=2
  happens move-at-work 'back belated bothFirst extended forward newFirst oldFirst outlived' $moved -DEXTENSIONS
  fails move-skipped "$alone" $replaced -DSKIPPED
  fails move-early "$alone" $replaced -DEARLY
  fails move-no-wait "$alone" $replaced -DWAIT=0
  fails move-hasty-back "$alone" $replaced -DBACK=0
  fails move-one-quorum "$alone" $replaced -DONE_QUORUM
  fails move-union "$alone" $added -DUNION
  fails move-extends-one "$alone" $more -DEXTENSIONS -DEXTENDS_ONE
  fails move-fence-no-wait "$monotonic" $moved -DSKEW=1 -DENDS -DWAIT=0
}

move_full() {
  local model=move.pml deep=1000000
  move_small
  holds move-apart $apart
  holds move-added $added
  holds move-more $more
  holds move-extension-replaced $replaced -DEXTENSIONS
  holds move-ended-apart $apart -DENDS -DWAIT=0 -DBACK=0
  holds move-next $next -DSKIPPED -DWAIT=0 -DBACK=0
  holds move-fence-by-clock $moved -DSKEW=1
  happens move-fence-at-work 'bothFirst fenced newFirst oldFirst outlived stale' $moved -DFENCES=2
  fails move-straggler "$alone" $replaced -DSTRAGGLER
  fails move-short-wait "$alone" $replaced -DWAIT=1
  fails move-short-back "$alone" $replaced -DBACK=1
  fails move-skipped-added "$alone" $added -DSKIPPED
  fails move-fence-forgotten "$monotonic" $moved -DFENCES=2 -DANY_FENCE
  fails move-fence-clocks-apart "$monotonic" $moved -DSKEW=2
}

# The restart guard in six rules. Where a tick is enough for MaxTTL, the searches are smaller.
readonly first='-DVIRGIN -DLONG=1' mixed='-DLONG=2 -DSHORT=1' spare='-DSPARE -DLOSSES=2'

rules_small() {
  local model=guard.pml
  holds rules -DLOSSES=2
  holds rules-first $first
  holds rules-mixed $mixed
  holds rules-failover -DSPARE
  holds rules-alias -DALIAS -DLOSSES=0
  happens rules-at-work 'again renamed succession survived waited' -DEXTENSIONS -DIMMORTAL
  fails rules-any-name "$single" -DANY_NAME
  fails rules-no-wait "$single" -DNO_WAIT
  fails rules-any-record "$single" -DANY_RECORD
  fails rules-untold "$single" -DUNTOLD
  fails rules-heard-nobody "$single" $mixed -DHEARD=0
  fails rules-no-entry "$single" $mixed -DNO_ENTRY
  fails rules-one-look "$single" $first -DONE_LOOK
  fails rules-eager "$single" $first -DEAGER -DIMMORTAL
  fails rules-no-return "$single" $spare -DNO_RETURN
  fails rules-no-four "$single" -DSPARE -DFOUR=0
}

rules_full() {
  local model=guard.pml deep=1000000
  rules_small
  holds rules-long -DLOSSES=3
  holds rules-extension -DLOSSES=2 -DEXTENSIONS
  holds rules-first-long -DVIRGIN
  holds rules-first-extension -DVIRGIN -DEXTENSIONS
  holds rules-first-slow $first -DSLOW
  holds rules-first-behind $first -DBEHIND
  holds rules-first-settled $first -DLOSSES=2 -DSETTLED
  holds rules-first-mixed $mixed -DVIRGIN
  holds rules-mixed-extension $mixed -DEXTENSIONS
  holds rules-mixed-failover $mixed -DSPARE
  holds rules-everywhere $mixed -DHEARD=1 -DEVERYWHERE
  holds rules-behind -DBEHIND
  holds rules-mixed-behind $mixed -DBEHIND
  holds rules-return $spare
  holds rules-return-twice -DSPARE -DLOSSES=3
  holds rules-any-other $spare -DANY_OTHER
  happens rules-shared 'again renamed shared succession waited'
  happens rules-first-at-work 'first succession together waited' $first -DLOSSES=0 -DIMMORTAL
  happens rules-mixed-at-work 'again lengthened renamed succession waited' $mixed -DIMMORTAL
  happens rules-return-at-work 'belated returned succession waited' $spare -DLONG=1 -DIMMORTAL
  fails rules-short-backlog "$single" -DBACKLOG=1
  fails rules-no-nonce "$single" -DLOSSES=2 -DNO_NONCE
  fails rules-unwatched "$named" -DUNWATCHED -DNAMED
  fails rules-not-behind "$single" -DBEHIND -DNOT_BEHIND
  fails rules-not-again "$single" $mixed -DNOT_AGAIN
  fails rules-brief-entry "$single" $mixed -DBRIEF_ENTRY
  fails rules-from-nothing "$single" $first -DFROM_NOTHING
  fails rules-looks-on "$single" $first -DLOOKS_ON
  fails rules-old-record "$single" -DSPARE -DLOSSES=3 -DOLD_RECORD
  fails rules-four-by-client "$single" -DSPARE -DFOUR_BY_CLIENT
  fails rules-no-character "$single" -DALIAS -DLOSSES=0 -DNO_CHARACTER
  fails rules-first-twice "$single" $first -DLOSSES=2
  fails rules-mixed-twice "$single" $mixed -DLOSSES=2
  fails rules-heard-some "$single" $mixed -DHEARD=1
  fails rules-deleted "$single" $mixed -DDELETED
  fails rules-stranger "$single" $spare -DSTRANGER
}

# both ONE OTHER runs two lists at the same time, and fails if one of them does.
both() {
  local one other status=0
  $1 &
  one=$!
  $2 &
  other=$!
  wait "$one" || status=$?
  wait "$other" || status=$?
  return "$status"
}

small_one() { holds_small; happens_all; rules_small; }
small_other() { holds_told; fails_all; move_small; }
full_one() { holds_full; happens_all; }
full_other() { holds_more; fails_all; move_full; rules_full; }

case $size in
small) both small_one small_other ;;
full) both full_one full_other ;;
*)
  echo "usage: $0 [small|full]" >&2
  exit 2
  ;;
esac
