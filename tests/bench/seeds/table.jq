# SPDX-License-Identifier: MIT
#
# From the JSON of `run` to the cells of its table: a line for each row, tabs between the cells. "1.2/3.4" is a median and the worst.

def in_tenths($of): (. * 10 / $of | round) as $tenths | "\(($tenths / 10) | floor).\($tenths % 10)";
def shown($unit):
	if . == null then null
	elif $unit == "MiB" then in_tenths(1024)
	elif $unit == "%" then in_tenths(10)
	elif $unit == "ms" or $unit == "1/s" then in_tenths(1000)
	else tostring end;
def target($unit): if . == null then "" else .op + (.value | shown($unit)) end;
def cell($unit):
	if .has_failed then "failed"
	elif .value == null then "-"
	else ([.value, .worst] | map(shown($unit) | select(. != null)) | join("/")) end;

(["row", "", "unit", "seed", "target"] + [.allocators[].name]),
(.allocators as $columns | .rows[] | . as $row
	| [.row, .what, .unit, .seed, (.target | target($row.unit))]
	+ [$columns[].name as $name | ([$row.results[] | select(.allocator == $name)] | first // {}) | cell($row.unit)
		+ (if ($row.missed | index($name)) then "!" else "" end)])
| @tsv
