#!/bin/bash
# SPDX-License-Identifier: MIT
#
# nginx under the preload: two workers serve files, compressed text and a proxied location to ab; the configuration is read again
# under load; no request fails and every body is whole. It listens on 127.0.0.1 on a port of its own.
# shellcheck source=common.bash
. "$(dirname "$0")/common.bash"

PATH=$PATH:/usr/sbin
need nginx nginx
need ab apache2-utils
need pgrep procps
bound nginx -v
bound ab -V

mkdir "$work/tmp" "$work/html"
for size in 1 100 2000; do head -c "${size}000" /dev/zero | tr '\0' x >"$work/html/$size.txt"; done
seq 1 30000 >"$work/html/numbers.txt"

# write_configuration PORT
write_configuration() {
	cat >"$work/nginx.conf" <<-END
		$([ "$(id -u)" -ne 0 ] || echo "user root;")
		daemon off;
		worker_processes 2;
		worker_shutdown_timeout 20s;
		pid $work/nginx.pid;
		error_log $work/error.log notice;
		events { worker_connections 512; }
		http {
			types { text/plain txt; }
			access_log off;
			client_body_temp_path $work/tmp/body;
			proxy_temp_path $work/tmp/proxy;
			fastcgi_temp_path $work/tmp/fastcgi;
			uwsgi_temp_path $work/tmp/uwsgi;
			scgi_temp_path $work/tmp/scgi;
			gzip on;
			gzip_min_length 1;
			gzip_types text/plain;
			gzip_http_version 1.0;
			gzip_proxied any;
			server {
				listen 127.0.0.1:$1;
				root $work/html;
				location /proxied/ {
					proxy_pass http://unix:$work/socket:/;
					proxy_buffering on;
				}
			}
			server {
				listen unix:$work/socket;
				root $work/html;
				sendfile off;
			}
		}
	END
}

# A port nobody answers on; should another take it in between, nginx ends and the next one is tried.
start_server() {
	local try
	for try in 1 2 3 4 5 6 7 8; do
		port=$((20000 + (RANDOM + try) % 12000))
		! answers || continue
		write_configuration "$port"
		start nginx nginx -p "$work" -c "$work/nginx.conf" -e "$work/error.log"
		! wait_for 20 answers_or_gone || is_gone "$server" || return 0
	done
	cat "$work/nginx.log" "$work/error.log"
	fail "nginx does not start"
}

answers() {
	(exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null
}

answers_or_gone() {
	is_gone "$server" || answers
}

# body PATH: as HTTP/1.0, without the headers
body() {
	exec 3<>"/dev/tcp/127.0.0.1/$port"
	printf 'GET %s HTTP/1.0\r\n%s\r\n' "$1" "${2:-}" >&3
	sed '1,/^\r$/d' <&3
	exec 3>&-
}

check_bodies() {
	local name prefix
	for name in 1 100 2000 numbers; do
		for prefix in / /proxied/; do
			body "$prefix$name.txt" | cmp -s - "$work/html/$name.txt" || fail "$prefix$name.txt is not the file"
			body "$prefix$name.txt" $'Accept-Encoding: gzip\r\n' | gzip -d | cmp -s - "$work/html/$name.txt" ||
				fail "$prefix$name.txt compressed is not the file"
		done
	done
}

# load REQUESTS PATH [OPTIONS...]
load() {
	local requests=$1 path=$2
	shift 2
	preload ab -q -n "$requests" -c 32 "$@" "http://127.0.0.1:$port$path" >"$work/ab" 2>&1 || { cat "$work/ab"; fail "ab on $path"; }
	if ! grep -q "^Complete requests: *$requests$" "$work/ab" || ! grep -q '^Failed requests: *0$' "$work/ab" ||
		grep -q '^Non-2xx' "$work/ab"; then
		cat "$work/ab"
		fail "requests for $path failed"
	fi
}

check_workers() {
	local pid workers
	workers=$(pgrep -P "$server")
	[ "$(wc -w <<<"$workers")" -ge 2 ] || fail "nginx has too few workers"
	for pid in $server $workers; do loaded "$pid" || is_gone "$pid" || fail "a process of nginx without the library"; done
}

start_server
check_workers
check_bodies
load 6000 /1.txt -k
load 2000 /1.txt
load 800 /numbers.txt -k -H "Accept-Encoding: gzip"
load 1500 /proxied/100.txt -k
load 100 /proxied/2000.txt
# Workers are replaced while requests run.
for _ in 1 2 3; do
	kill -HUP "$server"
	load 1000 /proxied/1.txt
done
check_bodies
check_workers
kill -QUIT "$server"
ends_well nginx
if grep -E '\[(alert|emerg|crit)\]|exited on signal' "$work/error.log"; then fail "nginx complained"; fi
echo "nginx: 14400 requests, none failed"
