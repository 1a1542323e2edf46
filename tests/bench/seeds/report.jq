# SPDX-License-Identifier: MIT
#
# From what `run` measured to its JSON. In: $rows and $runs, the two tables of `run` with their fields between bars; $about, an object
# with everything else that goes in front. A row's limit for lull is held against its worst number, if it has one, that for the seed
# policy against its first: the seed's figures are medians.

def trim: sub("^ +"; "") | sub(" +$"; "");
def table: split("\n") | map(select(length > 0) | split("|") | map(trim));
def limit: if . == "-" then null else {op: .[0:2], value: (.[2:] | tonumber)} end;
def is_within($limit): if $limit.op == "<=" then . <= $limit.value else . >= $limit.value end;

# "NAME key=1 key=2" -> {"key": 1, ...}
def numbers: split(" ") | .[1:] | map(split("=") | {(.[0]): (.[1] as $value | try ($value | tonumber) catch $value)}) | add // {};

def run_of_line: {
	scenario: .[0], allocator: .[1], command: .[2],
	has_failed: (.[3] == "failed"),
	no_such_call: (.[3] | numbers.no_such_call // null),
	numbers: (if .[3] == "failed" then {} else (.[3] | numbers | del(.no_such_call)) end)
};

def row_of_line: {
	row: .[0], scenario: .[1], key: .[2], worst_key: (if .[3] == "-" then null else .[3] end), unit: .[4], what: .[5], seed: .[6],
	target: (.[7] | limit), seed_policy_target: (.[8] | limit)
};

def result_of($row): {
	allocator,
	value: (.numbers[$row.key] // null),
	worst: (if $row.worst_key then .numbers[$row.worst_key] // null else null end),
	has_failed, no_such_call
};

def is_missed($row):
	if .allocator == "lull" and $row.target then (.worst // .value) as $n | $n == null or ($n | is_within($row.target) | not)
	elif .allocator == "lull-seed" and $row.seed_policy_target then .value == null or (.value | is_within($row.seed_policy_target) | not)
	else false end;

($runs | table | map(run_of_line)) as $all
| $about + {
	rows: ($rows | table | map(row_of_line
		| . as $row
		| .results = [$all[] | select(.scenario == $row.scenario) | result_of($row)]
		| .missed = [.results[] | select(is_missed($row)) | .allocator])
		| map(select(.results | length > 0))),
	runs: $all
}
