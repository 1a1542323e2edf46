#!/bin/bash
# SPDX-License-Identifier: MIT
#
# java under the preload: a start, and a small program with threads and direct buffers. The program is compiled by java itself
# where the compiler is there (it is not in the run-time packages); keytool, which is always there, does real work otherwise.
# shellcheck source=common.bash
. "$(dirname "$0")/common.bash"

need java default-jre-headless
unset JAVA_TOOL_OPTIONS _JAVA_OPTIONS

cat >"$work/Main.java" <<'END'
import java.nio.ByteBuffer;
import java.util.*;
import java.util.concurrent.*;
import java.util.zip.*;

public class Main {
	static long work(int n) throws Exception {
		long sum = n;
		Random random = new Random(n);
		List<ByteBuffer> buffers = new ArrayList<>();
		for (int i = 0; i < 400; i++) {
			ByteBuffer b = ByteBuffer.allocateDirect(1 + random.nextInt(60000));
			while (b.hasRemaining()) b.put((byte) i);
			buffers.add(b);
			if (buffers.size() > 40) sum += buffers.remove(random.nextInt(40)).get(0);
			Deflater d = new Deflater();
			d.setInput(new byte[5000 + n]);
			d.finish();
			sum += d.deflate(new byte[6000]);
			d.end();
		}
		CRC32 crc = new CRC32();
		for (ByteBuffer b : buffers) { b.flip(); crc.update(b); }
		return sum * 31 + crc.getValue();
	}

	public static void main(String[] args) throws Exception {
		ExecutorService pool = Executors.newFixedThreadPool(6);
		List<Future<Long>> all = new ArrayList<>();
		for (int n = 0; n < 24; n++) { final int m = n; all.add(pool.submit(() -> work(m))); }
		for (Future<Long> f : all) System.out.println(f.get());
		pool.shutdown();
		for (int i = 0; i < 300; i++) { Thread t = new Thread(() -> new ArrayList<>(Collections.nCopies(100, "x"))); t.start(); t.join(); }
		TreeMap<String, Integer> map = new TreeMap<>();
		for (int i = 0; i < 100000; i++) map.merge("k" + i * 7919L % 5003, i, Integer::sum);
		System.gc();
		System.out.println(map.size() + " " + map.hashCode());
		Process p = new ProcessBuilder("sh", "-c", "echo child").start();
		System.out.println(new String(p.getInputStream().readAllBytes()).trim() + " " + p.waitFor());
	}
}
END

export LC_ALL=C.UTF-8
bound java -version
same version java -version
same interpreter java -Xint -XX:+UseSerialGC -XshowSettings:locale -version
if java --list-modules | grep -q '^jdk.compiler'; then
	same program java -Xmx256m "$work/Main.java"
else
	# shellcheck disable=SC2016 # for the inner shell
	same keytool sh -c 'for i in 1 2; do
		keytool -genkeypair -keyalg RSA -alias key$i -dname CN=test -storepass secret -keystore store || exit
		keytool -list -alias key$i -storepass secret -keystore store | cut -d , -f 1 | head -n 1
	done'
fi
