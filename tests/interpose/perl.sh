#!/bin/bash
# SPDX-License-Identifier: MIT
#
# perl under the preload: hashes, strings that grow, regular expressions, sorting, fork and, where perl has them, threads.
# shellcheck source=common.bash
. "$(dirname "$0")/common.bash"

need perl perl
export PERL_HASH_SEED=0

cat >"$work/script.pl" <<'END'
use strict;
use warnings;
use Config;
use Data::Dumper;
$Data::Dumper::Sortkeys = 1;
$| = 1;

my $seed = 42;
sub rnd { $seed = ($seed * 1103515245 + 12345) % 2147483648; return int($seed / 65536) % $_[0]; }
sub sum32 { return unpack('%32C*', $_[0]); }

my (%h, @a);
for my $i (1 .. 30000) {
	my $k = 'key' . rnd(10000);
	push @{ $h{$k} }, $i;
	delete $h{ 'key' . rnd(10000) } if $i % 3 == 0;
}
print 'hash ', scalar(keys %h), ' ', sum32(join ',', map { "$_=@{$h{$_}}" } sort keys %h), "\n";

my $s = '';
$s .= chr(97 + rnd(26)) x rnd(40) for 1 .. 20000;
print 'string ', length $s, ' ', sum32($s), "\n";
(my $t = $s) =~ s/([aeiou]+)/<$1>/g;
print 'replaced ', length $t, ' ', sum32($t), ' ', scalar(() = $t =~ /<(\w)\1*>/g), "\n";

@a = sort { length $a <=> length $b or $a cmp $b } map { join '', map { chr(97 + rnd(26)) } 0 .. rnd(200) } 1 .. 8000;
print 'sorted ', sum32("@a[0..99]"), ' ', sum32("@a[-100..-1]"), "\n";
my $tree = {};
for (1 .. 5000) { my $n = $tree; $n = $n->{ rnd(9) } //= {} for 0 .. 6; $n->{end}++; }
print 'tree ', sum32(Dumper($tree)), "\n";

for my $i (1 .. 24) {
	pipe(my $r, my $w) or die;
	my $pid = fork // die;
	if (!$pid) {
		my @b = map { 'x' x ($_ * $i % 1000) } 1 .. 200;
		print $w length(join '', @b), "\n";
		undef %h;
		close $w;
		exit $i % 5;
	}
	close $w;
	my $line = <$r>;
	waitpid $pid, 0;
	chomp $line;
	print "child $line ", $? >> 8, "\n" if $i % 8 == 0;
}
open my $f, '>', 'file' or die;
printf $f "%06d %s\n", $_, 'y' x ($_ % 80) for 1 .. 20000;
close $f;
open $f, '<', 'file' or die;
my @lines = <$f>;
print 'lines ', scalar @lines, ' ', sum32($lines[-1]), "\n";

undef $tree;
@a = @lines = ();
$s = $t = "";
%h = ();
if ($Config{usethreads}) {
	require threads;
	my $work = sub {
		my ($n, %m) = @_;
		$m{ $_ * $n % 997 } .= 'z' x ($_ % 50) for 1 .. 8000;
		return length join '', map { $m{$_} } sort keys %m;
	};
	my @t = map { threads->create($work, $_) } 1 .. 6;
	print 'thread ', $_->join, "\n" for @t;
}
END

same perl perl "$work/script.pl"
