/* SPDX-License-Identifier: MIT */
/*
 * Read when needed, not cached: a program may change its own limits. Where nothing may be asked (caps.h), the answers are no limit, and
 * the mode last seen.
 */
#include "kernel/rlimit.h"

#include "kernel/caps.h"
#include "kernel/sys.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

size_t rlimit_address_space(void)
{
	struct rlimit limit;
	if (caps_is_minimal())
		return SIZE_MAX;
	if (sys_call(SYS_prlimit64, 0, RLIMIT_AS, 0, (long)&limit, 0, 0) < 0 || limit.rlim_cur == RLIM_INFINITY)
		return SIZE_MAX;
	return (size_t)limit.rlim_cur;
}

static int read_overcommit(void)
{
	char mode = '0';
	int fd = (int)sys_call(SYS_openat, AT_FDCWD, (long)"/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC, 0, 0, 0);
	if (fd < 0)
		return 0;
	if (sys_call(SYS_read, fd, (long)&mode, 1, 0, 0, 0) != 1 || mode < '0' || mode > '2')
		mode = '0';
	sys_close(fd);
	return mode - '0';
}

int rlimit_overcommit(void)
{
	static _Atomic int seen; /* relaxed: a number */

	if (caps_has(CAPS_PROC))
		atomic_store_explicit(&seen, read_overcommit(), memory_order_relaxed);
	return atomic_load_explicit(&seen, memory_order_relaxed);
}

size_t rlimit_memory(void)
{
	struct sysinfo info;

	return !caps_has(CAPS_SYSINFO) || sys_sysinfo(&info) < 0 ? 0 : info.totalram * info.mem_unit;
}

bool rlimit_is_obvious_overcommit(size_t len)
{
	struct sysinfo info;

	if (len < GIB || !caps_has(CAPS_SYSINFO) || sys_sysinfo(&info) < 0 || rlimit_overcommit() != 0)
		return false;
	return len / info.mem_unit > info.totalram + info.totalswap;
}
