/* SPDX-License-Identifier: MIT */
/*
 * Read when needed, never cached: a program may change its own limits.
 */
#include "kernel/rlimit.h"

#include "kernel/caps.h"
#include "kernel/sys.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

size_t rlimit_address_space(void)
{
	struct rlimit limit;
	if (sys_call(SYS_prlimit64, 0, RLIMIT_AS, 0, (long)&limit, 0, 0) < 0 || limit.rlim_cur == RLIM_INFINITY)
		return SIZE_MAX;
	return (size_t)limit.rlim_cur;
}

int rlimit_overcommit(void)
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
