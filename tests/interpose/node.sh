#!/bin/bash
# SPDX-License-Identifier: MIT
#
# node under the preload: worker threads, buffers, zlib, JSON, child processes; what it prints must be the same.
# shellcheck source=common.bash
. "$(dirname "$0")/common.bash"

need node nodejs

cat >"$work/script.js" <<'END'
'use strict';
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const zlib = require('zlib');
const crypto = require('crypto');
const { execFileSync } = require('child_process');
const fs = require('fs');

function random(seed) { return () => (seed = (Math.imul(seed, 1103515245) + 12345) >>> 0) >>> 8; }
function hash(data) { return crypto.createHash('sha256').update(data).digest('hex').slice(0, 16); }

function buffers(seed) {
	const next = random(seed), kept = new Map(), digest = crypto.createHash('sha256');
	for (let i = 0; i < 6000; i++) {
		const key = next() % 300;
		if (kept.has(key)) digest.update(kept.get(key));
		const size = next() % (i % 50 ? 4000 : 400000);
		kept.set(key, Buffer.alloc(size, i & 255));
	}
	return digest.digest('hex').slice(0, 16);
}

function compress(seed) {
	const next = random(seed), text = [];
	for (let i = 0; i < 30000; i++) text.push('word' + next() % 500);
	const data = Buffer.from(text.join(' '));
	const out = [];
	for (const [pack, unpack] of [['gzip', 'gunzip'], ['deflate', 'inflate'], ['brotliCompress', 'brotliDecompress']]) {
		const options = pack.startsWith('brotli') ? { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 5 } } : {};
		const packed = zlib[pack + 'Sync'](data, options);
		out.push(pack, packed.length, zlib[unpack + 'Sync'](packed).equals(data));
	}
	return out.join(' ');
}

function json(seed) {
	const next = random(seed), rows = [];
	for (let i = 0; i < 20000; i++)
		rows.push({ id: i, name: 'n' + next() % 9999, list: [next() % 10, next() % 100], deep: { a: { b: String(next()) } } });
	const text = JSON.stringify(rows);
	return text.length + ' ' + hash(JSON.stringify(JSON.parse(text)));
}

function work(n) { return [n, buffers(n), compress(n), json(n)].join(' '); }

async function main() {
	console.log('main ' + work(1));
	const all = [2, 3, 4, 5].map((n) => new Promise((ok, bad) => {
		const w = new Worker(__filename, { workerData: n });
		let said;
		w.on('message', (m) => { said = m; });
		w.on('error', bad);
		w.on('exit', (code) => ok('worker ' + code + ' ' + said.text + ' ' + hash(said.bytes)));
	}));
	for (const line of await Promise.all(all)) console.log(line);
	const shared = new Int32Array(new SharedArrayBuffer(4));
	const stopped = new Worker('setInterval(() => Buffer.alloc(100000), 0)', { eval: true });
	await new Promise((ok) => stopped.on('online', ok));
	console.log('terminated', await stopped.terminate(), shared[0]);
	fs.writeFileSync('file', Buffer.alloc(3000000, 'text'));
	const parts = [];
	for await (const part of fs.createReadStream('file').pipe(zlib.createGzip()).pipe(zlib.createGunzip())) parts.push(part);
	console.log('stream', hash(Buffer.concat(parts)));
	for (let i = 0; i < 5; i++) console.log('child', execFileSync('sh', ['-c', 'seq 1 ' + i * 1000 + ' | cksum']).toString().trim());
	const derive = (i) => new Promise((ok) => crypto.scrypt('p' + i, 'salt', 32, (e, key) => ok(key.toString('hex').slice(0, 8))));
	console.log('pool', (await Promise.all([...Array(8).keys()].map(derive))).join(' '));
}

if (isMainThread) main();
else parentPort.postMessage({ text: work(workerData), bytes: new Uint8Array(100000).fill(workerData) });
END

same node node "$work/script.js"
