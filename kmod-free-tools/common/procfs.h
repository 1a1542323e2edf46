/* SPDX-License-Identifier: MIT */
/*
 * Reading /proc/PID. A process is held by a descriptor of its folder, so all answers are about the same process even when the
 * number is used anew. Under a recorded tree (--root DIR) the same files are read below DIR/proc.
 */
#ifndef LULL_TOOLS_PROCFS_H
#define LULL_TOOLS_PROCFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The largest pid any Linux gives out (PID_MAX_LIMIT, linux/threads.h, 64-bit). */
#define PROCFS_PID_MAX 4194304

/* True and *ret set when TEXT is a decimal number from 1 to PROCFS_PID_MAX. */
bool procfs_parse_pid(const char *text, int *ret);

/* root: "" for the running system. Returns a descriptor of ROOT/proc/PID, or -errno: -ENOENT when there is no such process. */
int procfs_open(const char *root, int pid);

/* What stands behind "KEY:" in the process's status file, blanks skipped, cut to LEN - 1 bytes. 0, or -errno; -ENODATA: no such line. */
int procfs_status(int process, const char *key, char *ret, size_t len);

/* The number behind KEY (kB lines as bytes), or UINT64_MAX. */
uint64_t procfs_status_bytes(int process, const char *key);

/* Whether the process has a file mapped whose name, without its folder, begins with NAME. False too when we may not look. */
bool procfs_has_mapped(int process, const char *name);

/* The first line of ROOT/proc/NAME. 0 or -errno. */
int procfs_read_line(const char *root, const char *name, char *ret, size_t len);

/*
 * Calls visit for each open file of the process until it returns true.
 *
 * fds       descriptor of the folder of links, name the link in it: openat(fds, name) opens that file anew
 * target    what the link says
 *
 * Returns 1 when visit did, 0 when it never did, else -errno: -EACCES or -EPERM when we may not look.
 */
int procfs_each_fd(int process, bool (*visit)(int fds, const char *name, const char *target, void *arg), void *arg);

#endif
