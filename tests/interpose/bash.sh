#!/bin/bash
# SPDX-License-Identifier: MIT
#
# bash under the preload: a script that forks some hundred subshells, pipes, here-documents, large strings and arrays.
# shellcheck source=common.bash
. "$(dirname "$0")/common.bash"

need bash bash

cat >"$work/script" <<'END'
sum=0
for ((i = 0; i < 200; i++)); do
	sum=$((sum + $(echo $((i * i)) | { read -r n; echo $((n % 97)); })))
done
echo "subshells $sum"

for ((i = 0; i < 25; i++)); do
	(for ((j = 0; j < 5; j++)); do (exit $((j + i % 3))) & done; wait) || echo "failed $i"
	(exit $((i % 7)))
	printf '%d ' $?
done
echo

seq 1 20000 | sed 's/$/ x/' | sort -r | awk '{ s += $1 } END { print "pipe", s }'
for ((i = 0; i < 30; i++)); do
	cat <<-DOC | tr a-z A-Z | tail -n 1
		here-document $i
		$(printf 'line %d of it\n' $(seq 1 $i))
		last of $i
	DOC
done
while read -r a b; do [[ $a == "$b" ]] || echo "differs: $a $b"; done < <(paste -d ' ' <(seq 500) <(seq 500))

declare -A map
for ((i = 0; i < 4000; i++)); do map[key$((i * 7919 % 4000))]+="value $i;"; done
for ((i = 0; i < 4000; i += 3)); do unset "map[key$i]"; done
for key in "${!map[@]}"; do echo "$key=${map[$key]}"; done | sort | cksum

text=abc
for ((i = 0; i < 17; i++)); do text+=$text; done
echo "${#text} ${#text} $(cksum <<<"$text")"
text=${text//b/_longer_}
echo "${#text} $(cksum <<<"$text")"
lines=()
mapfile -t lines < <(seq 1 5000)
echo "${#lines[@]} ${lines[@]: -3}"
f() { local n=$1 pad=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; ((n == 0)) || f $((n - 1)); printf -v out '%s' "$pad$n"; }
f 400
echo "$out"

coproc up { while read -r l; do echo "<$l>"; done; }
for ((i = 0; i < 50; i++)); do echo "co $i" >&"${up[1]}"; read -r l <&"${up[0]}"; done
echo "$l"
exec {in}>&"${up[1]}" {in}>&-
kill "$up_PID" 2>/dev/null
trap 'echo end' EXIT
trap 'got=$((got + 1))' USR1
for ((i = 0; i < 20; i++)); do kill -USR1 $$; done
echo "signals $got"
END

same bash bash "$work/script"
