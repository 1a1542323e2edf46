/* SPDX-License-Identifier: MIT */
/*
 * Two tables, and the few places where several causes look alike and a fact tells them apart.
 */
#include "common/diagnosis.h"

#include "common/table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct cap_row {
	enum cap cap;
	const char *without; /* at most DIAGNOSIS_TEXT - 1 columns, as all texts here */
	const char *since;   /* where it comes from */
	const char *calls;   /* what a filter must let through; NULL: nothing but madvise and the like */
	bool is_extra;       /* nice to have: does not count as missing */
};

/* The figures are those measured on a machine whose faults are dear; README.md. */
static const struct cap_row cap_rows[] = {
	{CAPS_DONTNEED, "no memory can be given back, calloc clears every block", "a kernel that obeys MADV_DONTNEED", NULL, false},
	{CAPS_THREAD, "no background thread: memory goes back in calls, later", "any Linux", "clone3, clone", false},
	{CAPS_PROCESS_MADVISE, "returning small holes costs 8 to 90 times as much", "Linux 6.13", "process_madvise", false},
	{CAPS_URING, "threads that go idle pay for the return themselves", "Linux 5.18",
		"io_uring_setup, io_uring_enter, io_uring_register", false},
	{CAPS_URING_MADVISE, "threads that go idle pay for the return themselves", "Linux 5.18",
		"io_uring_setup, io_uring_enter, io_uring_register", false},
	{CAPS_POPULATE, "taking memory back costs a page fault for each OS page", "Linux 5.14", NULL, false},
	{CAPS_UFFD, "which memory is really in use is not known", "Linux 5.11", "userfaultfd, ioctl", false},
	{CAPS_PAGEMAP_SCAN, "which memory is really in use is not known", "Linux 6.7", "openat, ioctl", false},
	{CAPS_UFFD_WP_ASYNC, "which memory is really in use is not known", "Linux 6.7", "userfaultfd, ioctl", false},
	{CAPS_PSI, "pressure is seen by usage and limits only", "Linux 4.20 with CONFIG_PSI", "openat, read", false},
	{CAPS_MINCORE, "free memory that is kept counts as resident throughout", "any Linux", "mincore", false},
	{CAPS_SYSINFO, "how much memory there is is not known: less is kept", "any Linux", "sysinfo", false},
	{CAPS_PROC, "strict overcommit is not noticed: its charge stays", "/proc, mounted", "openat, read", false},
	{CAPS_HUGE_PAGES, "large dense memory costs 512 faults instead of one", "CONFIG_TRANSPARENT_HUGEPAGE", NULL, false},
	{CAPS_UFFD_MOVE, "realloc of large blocks moves pages by mremap instead", "Linux 6.8", "userfaultfd, ioctl", false},
	{CAPS_MREMAP, "realloc of large blocks copies", "Linux 5.7", "mremap", false},
	{CAPS_FREE, "holes in huge pages lower RSS but not the cgroup's usage", "Linux 4.5", NULL, false},
	{CAPS_COLD, "memory not used for long is not offered for swapping", "Linux 5.4", NULL, false},
	{CAPS_PROCESS_MADVISE_COLD, "the same, one call for each range", "Linux 5.10", "process_madvise", false},
	{CAPS_DONTNEED_LOCKED, "under mlockall(MCL_ONFAULT) no memory goes back", "Linux 5.18", NULL, false},
	{CAPS_URING_POLL, "the background thread waits by more than one call", "Linux 5.18",
		"io_uring_setup, io_uring_enter, io_uring_register", false},
	{CAPS_URING_FUTEX, "the same", "Linux 6.7", "io_uring_setup, io_uring_enter, io_uring_register", false},
	{CAPS_MEMBARRIER, "threads that run cannot be told at once", "Linux 4.14", "membarrier", false},
	{CAPS_MEMFD, "no statistics: lull stat and lull doctor PID see nothing", "Linux 3.17", "memfd_create, ftruncate, fcntl, fstat", false},
	{CAPS_GUARD_PAGES, "a guard costs a mapping of its own", "Linux 6.13", NULL, false},
	{CAPS_UFFD_DEV, "userfaultfd has one door less", "Linux 6.1", "openat, ioctl", true},
	{CAPS_UFFD_RWP, "reads do not show in what is in use, only writes", "a kernel after 6.18", "userfaultfd, ioctl", true},
	{CAPS_VMA_NAME, "lull's memory has no name in /proc/PID/maps", "Linux 5.17 with CONFIG_ANON_VMA_NAME", "prctl", true},
	{CAPS_THREAD_NAME, "the background thread has the program's name", "any Linux", "prctl", true},
};

_Static_assert(sizeof(cap_rows) / sizeof(cap_rows[0]) == CAPS_COUNT, "a capability has no row");

#define SET(text, ...) ((void)snprintf(text, DIAGNOSIS_TEXT, __VA_ARGS__))

enum cap diagnosis_cap(size_t i)
{
	return cap_rows[i].cap;
}

static const struct cap_row *row_of(enum cap cap)
{
	size_t i = 0;

	while (cap_rows[i].cap != cap)
		i++;
	return &cap_rows[i];
}

static bool is_ring(enum cap cap)
{
	return cap == CAPS_URING || cap == CAPS_URING_MADVISE || cap == CAPS_URING_POLL || cap == CAPS_URING_FUTEX;
}

static bool is_filtered(const struct facts *facts)
{
	return facts->seccomp == 2;
}

/* A filter's work, as far as can be told: then what it must let through is the change. */
static void blame_filter(const struct cap_row *row, struct finding *ret)
{
	ret->calls = row->calls;
	if (row->calls != NULL)
		SET(ret->change, "let the filter allow the calls below");
	else
		SET(ret->change, "let the filter allow this advice of madvise");
}

static void explain_refused(const struct cap_row *row, int reason, const struct facts *facts, struct finding *ret)
{
	if (reason == CAPS_KILLED) {
		SET(ret->why, "a system call filter kills for it");
		blame_filter(row, ret);
	} else if (is_ring(row->cap) && facts->io_uring_disabled == 2) {
		SET(ret->why, "kernel.io_uring_disabled is 2");
		SET(ret->change, "sysctl kernel.io_uring_disabled=0");
	} else if (is_ring(row->cap) && facts->io_uring_disabled == 1 && !facts_has_cap(facts, FACT_CAP_SYS_ADMIN)) {
		SET(ret->why, "kernel.io_uring_disabled is 1");
		SET(ret->change, "sysctl kernel.io_uring_disabled=0, or io_uring_group=GID");
	} else if (row->cap == CAPS_UFFD_DEV) {
		SET(ret->why, "/dev/userfaultfd is not for this user");
		SET(ret->change, "chmod or a udev rule for /dev/userfaultfd");
	} else if (is_filtered(facts)) {
		SET(ret->why, "a system call filter is in force");
		blame_filter(row, ret);
	} else {
		SET(ret->why, "%s", reason < 0 ? strerror(-reason) : "refused");
		SET(ret->change, "%s", strcmp(facts->lsm, "none") == 0 ? "rights of the process" : "the security module's policy");
	}
}

static void explain_absent(const struct cap_row *row, int reason, const struct facts *facts, struct finding *ret)
{
	if (row->cap == CAPS_HUGE_PAGES && strcmp(facts->thp, "never") == 0) {
		SET(ret->why, "transparent_hugepage/enabled is never");
		SET(ret->change, "madvise into /sys/kernel/mm/transparent_hugepage/enabled");
	} else if (row->cap == CAPS_PSI) {
		SET(ret->why, "pressure stall information is not there, or switched off");
		SET(ret->change, "boot with psi=1");
	} else if (reason == -ENOSYS && is_filtered(facts) && row->calls != NULL) {
		SET(ret->why, "an old kernel, or the system call filter in force");
		blame_filter(row, ret);
	} else {
		SET(ret->why, "%s", reason < 0 ? strerror(-reason) : "the kernel does not have it");
		SET(ret->change, "%s", row->since);
	}
}

static void explain_not_now(int reason, struct finding *ret)
{
	SET(ret->why, "%s", reason < 0 ? strerror(-reason) : "not needed so far");
	if (reason == -EAGAIN || reason == -ECANCELED)
		SET(ret->change, "more processes: RLIMIT_NPROC, pids.max, TasksMax=");
	else if (reason == -EMFILE)
		SET(ret->change, "more open files: RLIMIT_NOFILE, LimitNOFILE=");
	else if (reason == -EFBIG)
		SET(ret->change, "larger files: RLIMIT_FSIZE, LimitFSIZE=");
	else if (reason < 0)
		SET(ret->change, "more memory");
}

static void explain(const struct cap_row *row, const struct cap_answer *answer, const struct facts *facts, struct finding *ret)
{
	switch (answer->state) {
	case CAP_STATE_LIVE:
		return;
	case CAP_STATE_UNKNOWN:
		explain_not_now(answer->reason, ret);
		return;
	case CAP_STATE_OFF:
		SET(ret->why, "%s", answer->is_minimal ? "the program installed a system call filter" : "LULL_CAPS");
		if (!answer->is_minimal)
			SET(ret->change, "LULL_CAPS without -%s", ret->name);
		return;
	case CAP_STATE_BROKEN:
		SET(ret->why, "%s", answer->reason < 0 ? strerror(-answer->reason) : "the kernel says yes and does nothing");
		SET(ret->change, "a kernel that does it");
		return;
	case CAP_STATE_ABSENT:
		explain_absent(row, answer->reason, facts, ret);
		return;
	case CAP_STATE_NOT_PERMITTED:
		explain_refused(row, answer->reason, facts, ret);
		return;
	}
}

void diagnosis_of_cap(enum cap cap, const struct cap_answer *answer, const struct facts *facts, struct finding *ret)
{
	const struct cap_row *row = row_of(cap);
	bool other_door = cap == CAPS_UFFD && answer->door_is_open;

	*ret = (struct finding){.name = caps_name(cap), .without = row->without};
	SET(ret->state, "%s", caps_state_name(answer->state));
	if (answer->lacks != cap && answer->state != CAP_STATE_LIVE) {
		SET(ret->why, "it needs %s", caps_name(answer->lacks));
		SET(ret->change, "as for %s", caps_name(answer->lacks));
	} else {
		explain(row, answer, facts, ret);
	}
	ret->is_loss = answer->state > CAP_STATE_LIVE && !row->is_extra && !other_door;
	if (answer->state == CAP_STATE_UNKNOWN && answer->reason < 0)
		ret->is_loss = !row->is_extra;
}

/* --- facts ------------------------------------------------------------------------------------------------------------------------ */

static void set_number(struct finding *ret, int64_t value)
{
	if (value == FACT_UNKNOWN)
		SET(ret->state, "?");
	else if (value == FACT_UNLIMITED)
		SET(ret->state, "unlimited");
	else
		SET(ret->state, "%" PRId64, value);
}

static void set_bytes(struct finding *ret, int64_t value)
{
	if (value == FACT_UNKNOWN || value == FACT_UNLIMITED)
		set_number(ret, value);
	else
		table_humanise(ret->state, DIAGNOSIS_TEXT, (uint64_t)value);
}

static void lose(struct finding *ret, bool is_loss, const char *without, const char *change)
{
	if (!is_loss)
		return;
	ret->is_loss = true;
	ret->without = without;
	SET(ret->change, "%s", change);
}

static void fact_seccomp(const struct facts *facts, struct finding *ret)
{
	static const char *const modes[] = {"none", "strict", "filter"};

	if (facts->seccomp < 0 || facts->seccomp > 2)
		SET(ret->state, "?");
	else if (facts->seccomp_filters > 1)
		SET(ret->state, "%s, %" PRId64 " of them", modes[facts->seccomp], facts->seccomp_filters);
	else
		SET(ret->state, "%s", modes[facts->seccomp]);
}

static void fact_no_new_privs(const struct facts *facts, struct finding *ret)
{
	set_number(ret, facts->no_new_privs);
}

static void fact_rights(const struct facts *facts, struct finding *ret)
{
	if (facts->cap_eff == FACT_UNKNOWN) {
		SET(ret->state, "?");
		return;
	}
	SET(ret->state, "SYS_ADMIN %s, SYS_RESOURCE %s, SYS_PTRACE %s", facts_has_cap(facts, FACT_CAP_SYS_ADMIN) ? "yes" : "no",
	    facts_has_cap(facts, FACT_CAP_SYS_RESOURCE) ? "yes" : "no", facts_has_cap(facts, FACT_CAP_SYS_PTRACE) ? "yes" : "no");
}

static void fact_lsm(const struct facts *facts, struct finding *ret)
{
	SET(ret->state, "%.*s", DIAGNOSIS_TEXT - 1, facts->lsm);
}

static void fact_container(const struct facts *facts, struct finding *ret)
{
	SET(ret->state, "%.*s", DIAGNOSIS_TEXT - 1, facts->container);
}

static void fact_io_uring(const struct facts *facts, struct finding *ret)
{
	set_number(ret, facts->io_uring_disabled);
	lose(ret, facts->io_uring_disabled == 2, "no process of this machine has a ring", "sysctl kernel.io_uring_disabled=0");
}

static void fact_uffd(const struct facts *facts, struct finding *ret)
{
	/* 0 is as good: lull asks for faults of user code only, which needs no right */
	set_number(ret, facts->unprivileged_userfaultfd);
}

static void fact_thp(const struct facts *facts, struct finding *ret)
{
	SET(ret->state, "%.*s", DIAGNOSIS_TEXT - 1, facts->thp);
}

static void fact_overcommit(const struct facts *facts, struct finding *ret)
{
	set_number(ret, facts->overcommit_memory);
	lose(ret, facts->overcommit_memory == 2, "a charge goes back only with whole chunks of 4 MiB", "sysctl vm.overcommit_memory=0");
}

static void fact_maps(const struct facts *facts, struct finding *ret)
{
	set_number(ret, facts->max_map_count);
	lose(ret, facts->max_map_count >= 0 && facts->max_map_count < 65530, "few mappings: reservations are cut with care",
	     "sysctl vm.max_map_count=65530");
}

static void fact_as(const struct facts *facts, struct finding *ret)
{
	set_bytes(ret, facts->limit_as);
	lose(ret, facts->limit_as >= 0 && facts->limit_as < (INT64_C(256) << 30), "reservations are small, and many",
	     "ulimit -v unlimited; LimitAS=infinity");
}

static void fact_nproc(const struct facts *facts, struct finding *ret)
{
	set_number(ret, facts->limit_nproc);
}

static void fact_nofile(const struct facts *facts, struct finding *ret)
{
	set_number(ret, facts->limit_nofile);
	lose(ret, facts->limit_nofile >= 0 && facts->limit_nofile < 64, "there may be none left for statistics and tracking",
	     "ulimit -n 1024; LimitNOFILE=1024");
}

static void fact_memlock(const struct facts *facts, struct finding *ret)
{
	set_bytes(ret, facts->limit_memlock);
}

static void fact_cgroup(const struct facts *facts, struct finding *ret)
{
	SET(ret->state, "%.*s", DIAGNOSIS_TEXT - 1, facts->cgroup);
	lose(ret, facts->cgroup_is_read_only, "pressure triggers are refused: usage is looked at instead",
	     "containerd: cgroup_writable = true; Docker: --privileged");
}

static void fact_psi(const struct facts *facts, struct finding *ret)
{
	SET(ret->state, "%.*s", DIAGNOSIS_TEXT - 1, facts->psi);
	lose(ret, strcmp(facts->psi, "none") == 0, "stalls are not seen", "boot with psi=1");
	lose(ret, strcmp(facts->psi, "refused") == 0, "stalls are not seen", "boot with psi=1, or let the process read the file");
}

static void fact_swap(const struct facts *facts, struct finding *ret)
{
	if (facts->swap_bytes == 0)
		SET(ret->state, "none");
	else
		set_bytes(ret, facts->swap_bytes);
}

static const struct {
	const char *name;
	void (*find)(const struct facts *facts, struct finding *ret);
} fact_rows[] = {
	{"seccomp", fact_seccomp},
	{"container", fact_container},
	{"cgroup", fact_cgroup},
	{"pressure", fact_psi},
	{"io_uring_disabled", fact_io_uring},
	{"overcommit_memory", fact_overcommit},
	{"max_map_count", fact_maps},
	{"address_space", fact_as},
	{"open_files", fact_nofile},
	{"processes", fact_nproc},
	{"locked_memory", fact_memlock},
	{"huge_pages", fact_thp},
	{"userfaultfd", fact_uffd},
	{"rights", fact_rights},
	{"no_new_privs", fact_no_new_privs},
	{"security_module", fact_lsm},
	{"swap", fact_swap},
};

size_t diagnosis_n_facts(void)
{
	return sizeof(fact_rows) / sizeof(fact_rows[0]);
}

void diagnosis_of_fact(size_t i, const struct facts *facts, struct finding *ret)
{
	*ret = (struct finding){.name = fact_rows[i].name};
	fact_rows[i].find(facts, ret);
}
