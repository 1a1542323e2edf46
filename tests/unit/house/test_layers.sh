#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The include rule of src/README.md, checked on the sources: a file of a layer includes only "<its own or an earlier layer>/...",
# public headers and system headers; the command includes only base, kernel (what it measures and explains is the real one), its own
# headers and public ones; public headers include only each other. And only src/kernel enters the kernel: nothing else names the calls that do.
set -eu

cd "$(dirname "$0")/../../.."
layers="base kernel region page heap reclaim api"
# libc's calls that map, advise, create processes or go round libc. Blocking calls that src/api passes on are not in the list.
entering='mmap|mmap64|munmap|mprotect|mremap|madvise|posix_madvise|process_madvise|mincore|syscall|memfd_create|ftruncate|prctl'
entering="$entering|clone|fork|vfork|sbrk|brk"
failures=0

fail() {
	echo "$1"
	failures=$((failures + 1))
}

# Folders a file may include from.
allowed_for() {
	local layer allowed=lull
	case $1 in
	include/*) echo lull ;;
	kmod-free-tools/*) echo lull base kernel common commands.h ;;
	src/*)
		for layer in $layers; do
			allowed="$allowed $layer"
			[ "src/$layer" != "${1%/*}" ] || break
		done
		echo "$allowed"
		;;
	esac
}

check_includes() {
	local file target allowed="" of=""
	while IFS=: read -r file target; do
		[ "$file" = "$of" ] || allowed=$(allowed_for "$file") of=$file
		case " $allowed " in *" ${target%%/*} "*) ;; *) fail "$file: may not include \"$target\"; allowed folders: $allowed" ;; esac
	done < <(grep -rHPo --include='*.[ch]' '^\s*#\s*include\s*"\K[^"]*' src include kmod-free-tools)
}

check_folders_are_layers() {
	local folder
	for folder in src/*/; do
		folder=${folder%/}
		case " $layers man " in *" ${folder#src/} "*) ;; *) fail "$folder: not a layer ($layers)" ;; esac
	done
}

# Comments and strings do not count; a definition in src/api begins with `exported`; `kernel.mmap(` is the table of calls.
check_kernel_entries() {
	local line files
	mapfile -t files < <(find src include -name '*.[ch]' ! -path 'src/kernel/*')
	while read -r line; do
		fail "$line"
	done < <(perl -0777 -e '
		my $calls = shift;
		for my $file (@ARGV) {
			open my $in, "<", $file or die; my $text = <$in>;
			$text =~ s{/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"}{ }gs;
			$text =~ s{^exported [^\n]*}{}gm;
			print "$file: only src/kernel may call $1\n" while $text =~ /(?<![\w.>])($calls)\s*\(/g;
			print "$file: only src/kernel may enter the kernel\n" if $text =~ /__asm__[^;]*\b(syscall|svc)\b/;
		}' "$entering" "${files[@]}")
}

check_includes
check_folders_are_layers
check_kernel_entries
[ "$failures" -eq 0 ] || exit 1
