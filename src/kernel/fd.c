/* SPDX-License-Identifier: MIT */
/*
 * By device and inode: memfds and userfaultfds have inodes of their own (the latter since 5.12), files of /proc one for each time they are
 * looked up, so a number that was closed and used again for something else is told from ours.
 */
#include "kernel/fd.h"

#include "kernel/sys.h"

#include <fcntl.h>
#include <sys/stat.h>

/* Programs expect the numbers after 2 to be theirs and close what they find there. 1000 is below the usual soft limit of 1024; where the
 * limit is lower, 100 is still above what a small program opens. */
static const int floors[] = {1000, 100};

int fd_move_up(int fd)
{
	for (size_t i = 0; i < array_len(floors); i++) {
		int high = (int)sys_call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, floors[i], 0, 0, 0);

		if (high >= 0) {
			sys_close(fd);
			return high;
		}
	}
	return fd;
}

static bool identify(int fd, struct fd_mark *ret)
{
	struct stat st;

	if (fd < 0 || sys_call(SYS_fstat, fd, (long)&st, 0, 0, 0, 0) != 0)
		return false;
	*ret = (struct fd_mark){.fd = fd, .dev = st.st_dev, .ino = st.st_ino};
	return true;
}

struct fd_mark fd_remember(int fd)
{
	struct fd_mark mark;

	return identify(fd, &mark) ? mark : FD_NONE;
}

bool fd_is_ours(const struct fd_mark *mark)
{
	struct fd_mark now;

	return identify(mark->fd, &now) && now.dev == mark->dev && now.ino == mark->ino;
}

void fd_close(struct fd_mark *mark)
{
	if (fd_is_ours(mark))
		sys_close(mark->fd);
	*mark = FD_NONE;
}
