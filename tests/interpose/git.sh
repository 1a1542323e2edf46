#!/bin/bash
# SPDX-License-Identifier: MIT
#
# git under the preload: a repository of some hundred commits and merges, clone, gc, fsck and what its log and diffs say.
# shellcheck source=common.bash
. "$(dirname "$0")/common.bash"

need git git

cat >"$HOME/.gitconfig" <<'END'
[user]
	name = A Writer
	email = writer@example.org
[init]
	defaultBranch = main
[gc]
	auto = 0
[pack]
	threads = 2
[advice]
	detachedHead = false
END
export GIT_CONFIG_NOSYSTEM=1

cat >"$work/script" <<'END'
set -eu
now=1700000000
commit() {
	now=$((now + 60))
	GIT_AUTHOR_DATE="$now +0000" GIT_COMMITTER_DATE="$now +0000" git "$@"
}
git init -q repo
cd repo
mkdir -p src doc
for i in $(seq 1 70); do
	awk -v i="$i" 'BEGIN { for (n = 0; n < 400; n++) print "line", n, (n * i) % (17 + i % 5) }' >"src/file$((i % 12)).txt"
	echo "note $i" >>doc/notes
	git add .
	commit commit -q -m "change $i

$(seq 1 $((i % 20)))"
done
for b in 1 2 3 4; do
	git checkout -q -b "side$b" "main~$((b * 3))"
	for i in $(seq 1 6); do
		echo "side $b $i" >>"doc/side$b"
		git add .
		commit commit -q -m "side $b $i"
	done
	git checkout -q main
	commit merge -q --no-ff -m "merge side$b" "side$b"
done
# The bulk of the history: 400 commits over one large file, in one stream.
awk 'BEGIN {
	for (c = 1; c <= 400; c++) {
		print "commit refs/heads/bulk\ncommitter B <b@example.org> " 1700000000 + c " +0000\ndata 6\nbulk", c % 10
		text = ""
		for (n = 0; n < 300; n++) text = text n * c % 1009 " of " n "\n"
		printf "M 644 inline bulk/%d\ndata %d\n%s\n", c % 40, length(text), text
	}
}' | git fast-import --quiet
commit tag -a -m "a tag" first main~20
git repack -q -a -d -f --depth=50 --window=20
git gc -q --prune=now
git count-objects | cut -d ' ' -f 1
git fsck --full --strict 2>&1 | grep -v '^Checking' || true
cd ..
git clone -q repo clone
git clone -q --bare "file://$PWD/repo" bare
git clone -q --depth 10 "file://$PWD/repo" shallow
for r in repo clone bare shallow; do
	echo "$r"
	git -C $r rev-list --all | sort | cksum
	git -C $r rev-list --all --objects | sort | cksum
	git -C $r fsck --full 2>&1 | grep -v '^Checking' || true
done
cd clone
git log --graph --stat --format='%h %an %ad %s' | cksum
git log -p -M -C origin/bulk | cksum
git log --oneline | head -n 5
git shortlog -s -n HEAD
git blame -s src/file3.txt | cksum
git grep -n 'line 39[0-9] 3$' HEAD~20 | tail -n 5
git diff --word-diff HEAD~30 HEAD | cksum
git archive --format=tar HEAD | tar -t | cksum
commit rebase -q --onto HEAD~20 HEAD~3 2>&1 || true
git log -1 --format=%T
END

same git git -c alias.work="!bash $work/script" work
