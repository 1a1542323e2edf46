#!/bin/bash
# SPDX-License-Identifier: MIT
#
# gcc and g++ under the preload: large generated sources; the object files and programs must be the same to the byte.
# shellcheck source=common.bash
. "$(dirname "$0")/common.bash"

need gcc gcc
need awk mawk

awk 'BEGIN {
	print "#include <stdio.h>\n#include <string.h>\nstruct rec { int a; double b; char c[24]; struct rec *next; };"
	for (f = 0; f < 180; f++) {
		printf "int f%d(int x, struct rec *r)\n{\n\tint s = x;\n", f
		printf "\tfor (int i = 0; i < %d; i++) {\n\t\ts = s * %d + (i ^ x);\n", f % 50 + 3, f * 2 + 3
		printf "\t\tif (s %% %d == 0) s -= i;\n\t}\n", f % 13 + 2
		printf "\tswitch (s & 7) {\n"
		for (c = 0; c < 8; c++) printf "\tcase %d: s += %d; r->b *= s; break;\n", c, c * f
		printf "\t}\n\tsnprintf(r->c, sizeof(r->c), \"%%d\", s + %d);\n", f
		printf "\treturn s + (r->next ? f%d(x + 1, r->next) : 0);\n}\n", (f > 0) ? f - 1 : 0
	}
	print "int main(void)\n{\n\tstruct rec r = { 1, 2.0, \"\", NULL };\n\tint s = 0;"
	for (f = 0; f < 180; f++) printf "\ts ^= f%d(%d, &r);\n", f, f
	print "\tprintf(\"%d %s\\n\", s, r.c);\n\treturn 0;\n}"
}' >"$work/large.c"

cat >"$work/large.cc" <<'END'
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <variant>
#include <vector>
template <int N> struct chain { std::map<int, std::vector<std::string>> m; chain<N - 1> rest; int sum() const { return N + rest.sum(); } };
template <> struct chain<0> { int sum() const { return 0; } };
int main()
{
	chain<60> c;
	std::variant<int, double, std::string> v = "text";
	std::regex r("(a|b)*c[0-9]+");
	std::map<std::string, std::function<int(int)>> ops { { "twice", [](int x) { return 2 * x; } } };
	std::ostringstream o;
	o << c.sum() << ' ' << std::get<std::string>(v) << ' ' << std::regex_match("abac17", r) << ' ' << ops["twice"](21);
	std::cout << o.str() << '\n';
}
END

cat >"$work/script" <<'END'
set -eu
cp "$1"/large.c "$1"/large.cc .
gcc -O2 -g -Wall -c large.c -o large.o
gcc -O3 -S -fno-asynchronous-unwind-tables large.c -o large3.s
gcc large.o -o large
./large
if command -v g++ >/dev/null; then
	g++ -std=c++17 -O1 -g -c large.cc -o largecc.o
	g++ largecc.o -o largecc
	./largecc
fi
cksum ./*.o ./*.s large
ar rcs liball.a ./*.o
cksum liball.a
gcc -E large.c | cksum
echo 'int broken( {' >broken.c
gcc -c broken.c || echo "status $?"
END

bound "$(gcc -print-prog-name=cc1)" --version
bound "$(gcc -print-prog-name=as)" --version
bound "$(gcc -print-prog-name=ld)" --version
same gcc bash "$work/script" "$work"
