# SPDX-License-Identifier: MIT
#
# Draws what the demo sampled: RSS of redis-server over time, one line per allocator.
#
#   gnuplot -e "dir='out/demo'; names='glibc jemalloc lull'; wait_s=10; heading='...'" tests/demo/rss.gnuplot
#
# Reads DIR/NAME.samples.tsv and writes DIR/rss.png and DIR/rss.svg. Time 0 is the last DEL reply, so the runs lie over each other
# although their loads take different times. The upper panel shows everything, the lower one the first second and a bit.
# The grey area is what the client knows to be stored; it follows the last of NAMES, whose loads are as long as its own.

set datafile separator "\t"
file(name) = dir . '/' . name . '.samples.tsv'
mib(bytes) = bytes / 1048576.0

# Colours told apart with any colour vision (Okabe and Ito 2008); lull is also the thickest line.
colour(name) = name eq 'lull' ? 0x009e73 : name eq 'glibc' ? 0xd55e00 : name eq 'jemalloc' ? 0x0072b2 : \
	name eq 'mimalloc' ? 0xcc79a7 : 0xe69f00
width(name) = name eq 'lull' ? 4 : 2.5
last = word(names, words(names))

# At least two seconds each side, or the words there do not fit.
earliest = -2
latest = wait_s + 2
highest = 0
do for [name in names] {
	stats file(name) using 1:(mib($3)) skip 1 nooutput
	earliest = STATS_min_x < earliest ? STATS_min_x : earliest
	latest = STATS_max_x > latest ? STATS_max_x : latest
	highest = STATS_max_y > highest ? STATS_max_y : highest
}

set style fill solid 1.0 noborder
set border 3 lc rgb '#404040'
set tics nomirror out
set grid ytics lc rgb '#dddddd' lt 1
set yrange [0:50 * ceil(highest * 1.2 / 50)] # a fifth of head room for the words
set ytics 100
set lmargin 10
set rmargin 3
set ylabel 'RSS of redis-server (MiB)' offset 0.5
set xlabel 'seconds since the last DEL reply'

do for [format in 'png svg'] {
	if (format eq 'png') {
		set terminal pngcairo size 1500, 1150 font 'DejaVu Sans,15' background '#ffffff' rounded
	} else {
		set terminal svg size 1500, 1150 font 'sans-serif,19' background '#ffffff' rounded
	}
	set output dir . '/rss.' . format
	set multiplot title heading font format eq 'png' ? ',18' : ',23' offset 0, -0.3

	set origin 0, 0.41
	set size 1, 0.54
	set key outside top center horizontal reverse Left samplen 3 width 1
	set xrange [earliest:latest]
	set xtics latest - earliest > 25 ? 2 : 1
	unset arrow
	unset label
	do for [x in sprintf('0 %d', wait_s)] {
		set arrow from real(x), graph 0 to real(x), graph 1 nohead dt 2 lc rgb '#808080'
	}
	set label "load, delete\nnine in ten" at earliest / 2.0, graph 0.95 center tc rgb '#404040'
	set label sprintf('no commands for %d s', wait_s) at wait_s / 2.0, graph 0.95 center tc rgb '#404040'
	set label 'load again' at (wait_s + latest) / 2.0, graph 0.95 center tc rgb '#404040'
	plot file(last) using 1:(mib($5)) skip 1 with filledcurves y=0 lc rgb '#e2e2e2' title sprintf('live (%s run)', last), \
		for [name in names] file(name) using 1:(mib($3)) skip 1 with lines lw width(name) lc rgb colour(name) title name

	set origin 0, 0
	set size 1, 0.40
	unset key
	set xrange [-0.3:1.3]
	set xtics 0.25
	unset arrow
	unset label
	do for [x in '0 0.25 1'] {
		set arrow from real(x), graph 0 to real(x), graph 1 nohead dt 2 lc rgb '#808080'
	}
	set label 'load and delete' at -0.15, graph 0.94 center tc rgb '#404040'
	set label 'last DEL reply' at 0.01, graph 0.94 left tc rgb '#404040'
	set label '0.25 s later' at 0.26, graph 0.94 left tc rgb '#404040'
	set label '1 s later' at 1.01, graph 0.94 left tc rgb '#404040'
	plot file(last) using 1:(mib($5)) skip 1 with filledcurves y=0 lc rgb '#e2e2e2' notitle, \
		for [name in names] file(name) using 1:(mib($3)) skip 1 with lines lw width(name) lc rgb colour(name) notitle

	unset multiplot
	set output
}
