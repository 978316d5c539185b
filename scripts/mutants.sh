#!/usr/bin/env bash
# Mutation tests of a scheduling core: compiles mutants of its code one by one and runs the tests of
# its crate on each. Prints killed and survived mutants by module.
#
# Usage: mutants.sh [engine|router|media] [SHARD/COUNT]. Without SHARD/COUNT, tests one of 60 parts,
# chosen by the day, so successive nights test all. The results are in target/mutants/CORE. Fails if
# less than 95 % of the viable mutants of the engine were killed.
set -euo pipefail
cd "$(dirname "$0")/.."

core=${1:-engine}
case $core in
engine) crate=millstream modules='bounds,discipline,selector,structure,hilq' least=95 ;;
router) crate=millstream-router modules='router' least=0 ;;
media) crate=millstream-media modules='scheduler' least=0 ;;
*) echo "usage: mutants.sh [engine|router|media] [SHARD/COUNT]" >&2; exit 2 ;;
esac
shard=${2:-$(($(date +%s) / 86400 % 60))/60}

tools=$PWD/target/tools
# install SUBCOMMAND VERSION
install() {
    local program=cargo-$1
    "$tools/bin/$program" "$1" --version 2>/dev/null | grep -qF "$2" ||
        cargo install "$program" --version "$2" --locked --quiet --root "$tools"
}
install mutants 27.1.0
install nextest 0.9.151
export PATH=$tools/bin:$PATH

out=target/mutants/$core
mkdir -p "$out"
status=0
cargo mutants --package "$crate" --file "crates/$crate/src/{$modules}{.rs,/**}" \
    --shard "$shard" --sharding round-robin --jobs "${MUTANTS_JOBS:-2}" --output "$out" \
    --no-times --colors never || status=$?
# 2 and 3: mutants survived, or their tests timed out.
case $status in 0 | 2 | 3) ;; *) exit "$status" ;; esac

# Each line of these files is a mutant, FILE:LINE:COLUMN: CHANGE. A mutant that loops is killed.
cd "$out/mutants.out"
awk -v least="$least" '
    {
        split($1, place, ":")
        module = place[1]
        sub(/.*\/src\//, "", module)
        sub(/(\.rs|\/.*)$/, "", module)
        modules[module] = 1
        count[module, FILENAME == "missed.txt"]++
    }
    FILENAME == "missed.txt" { survivors = survivors "\n  " $0 }
    END {
        printf "%-12s %8s %9s %8s\n", "module", "killed", "survived", "share"
        for (module in modules) {
            dead = count[module, 0] + 0
            alive = count[module, 1] + 0
            printf "%-12s %8d %9d %6.1f %%\n", module, dead, alive, 100 * dead / (dead + alive)
            killed += dead
            survived += alive
        }
        if (survivors) print "survived:" survivors
        if (killed + survived == 0 || 100 * killed < least * (killed + survived)) {
            print "error: fewer than " least " % were killed" > "/dev/stderr"
            exit 1
        }
    }' caught.txt timeout.txt missed.txt
