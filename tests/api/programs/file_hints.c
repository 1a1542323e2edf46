/* SPDX-License-Identifier: MIT */
/*
 * The hints of <lull/file.h> on real files: one that is big and clean, the C library, and this program itself, which goes on running
 * afterwards. What a hint did is read from /proc/self/smaps and mincore.
 *
 *   file_hints FILE on     FILE has at least 8 MiB, each OS page of it ends with the number of its place in it (32 bits)
 *   file_hints FILE off    the same calls must do nothing and return 0
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define OS_PAGE ((size_t)4096)
#define ALL ((size_t)8 << 20)

#define MUST(x) ((x) ? (void)0 : fail(__LINE__, #x))

static int (*willneed)(const void *addr, size_t len);
static int (*done_with)(const void *addr, size_t len);

static void fail(int line, const char *what)
{
	fprintf(stderr, "file_hints: line %d: not so: %s (errno %d)\n", line, what, errno);
	exit(1);
}

/* One number, in KiB, of the mapping that begins at ADDR. */
static long smaps_kib(const void *addr, const char *name)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	char line[4400];
	bool here = false;
	long kib = -1;

	MUST(f != NULL);
	while (kib < 0 && fgets(line, sizeof(line), f) != NULL) {
		unsigned long start, end;

		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			here = start == (unsigned long)addr;
		else if (here && strncmp(line, name, strlen(name)) == 0)
			kib = strtol(line + strlen(name), NULL, 10);
	}
	fclose(f);
	MUST(kib >= 0);
	return kib;
}

static char *map(const char *path, int prot, int flags, int *ret_fd)
{
	int fd = open(path, flags & MAP_SHARED ? O_RDWR : O_RDONLY);
	char *addr = mmap(NULL, ALL, prot, flags, fd, 0);

	MUST(fd >= 0 && addr != MAP_FAILED);
	*ret_fd = fd;
	return addr;
}

/* Every OS page, by the number it ends with. */
static void read_all(const char *addr)
{
	for (size_t page = 0; page < ALL / OS_PAGE; page++) {
		uint32_t number;

		memcpy(&number, addr + (page + 1) * OS_PAGE - sizeof(number), sizeof(number));
		MUST(number == page);
	}
}

static size_t in_cache(char *addr)
{
	static unsigned char seen[ALL / OS_PAGE];
	size_t n = 0;

	MUST(mincore(addr, ALL, seen) == 0);
	for (size_t i = 0; i < ALL / OS_PAGE; i++)
		n += seen[i] & 1;
	return n;
}

/* --- what they do -------------------------------------------------------------------------------------------------------------------- */

static void whole_file_goes_and_comes_back(const char *path)
{
	int fd;
	char *file = map(path, PROT_READ, MAP_PRIVATE, &fd);

	read_all(file);
	MUST(smaps_kib(file, "Rss:") == ALL / 1024);
	MUST(done_with(file, ALL) == 0);
	MUST(smaps_kib(file, "Rss:") == 0);
	read_all(file);
	MUST(done_with(file + ALL / 2 + 1, ALL / 2 - 1) == 0);
	long left = smaps_kib(file, "Rss:");
	MUST(left > (long)ALL / 2048 && left < (long)ALL / 1024);
	read_all(file);
	munmap(file, ALL);
	close(fd);
}

/* Whether the page cache lets go of the file is the kernel's business; if it does, the hint brings it back without a fault of ours. */
static void needed_file_is_read_ahead(const char *path)
{
	int fd;
	char *file = map(path, PROT_READ, MAP_PRIVATE, &fd);
	size_t before;

	MUST(fsync(fd) == 0 && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
	before = in_cache(file);
	MUST(willneed(file, ALL) == 0);
	for (unsigned tries = 0; before < ALL / OS_PAGE && in_cache(file) == before; tries++) {
		MUST(tries < 600);
		usleep(50000);
	}
	read_all(file);
	munmap(file, ALL);
	close(fd);
}

static void written_file_stays(const char *path)
{
	int fd;
	char *file = map(path, PROT_READ | PROT_WRITE, MAP_PRIVATE, &fd);

	file[OS_PAGE] = '!';
	MUST(done_with(file, ALL) == EACCES);
	MUST(mprotect(file, ALL, PROT_READ) == 0);
	MUST(done_with(file, ALL) == EBUSY);
	MUST(file[OS_PAGE] == '!');
	MUST(smaps_kib(file, "Private_Dirty:") >= 4);
	munmap(file, ALL);
	close(fd);
}

/* Its own pages are dirty in the page cache, which costs nobody anything: the mapping is clean. */
static void freshly_written_file_goes(const char *path)
{
	int fd = open(path, O_RDWR);
	uint32_t number = 3;
	char *file = mmap(NULL, ALL, PROT_READ, MAP_PRIVATE, fd, 0);

	MUST(fd >= 0 && file != MAP_FAILED);
	MUST(pwrite(fd, &number, sizeof(number), 4 * OS_PAGE - sizeof(number)) == sizeof(number));
	read_all(file);
	MUST(done_with(file, ALL) == 0);
	MUST(smaps_kib(file, "Rss:") == 0);
	read_all(file);
	munmap(file, ALL);
	close(fd);
}

static void other_mappings_are_refused(const char *path)
{
	int fd;
	char *shared = map(path, PROT_READ, MAP_SHARED, &fd);
	char *block = malloc(ALL);
	char *zeroes = mmap(NULL, ALL, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memset(block, 1, ALL);
	MUST(done_with(shared, ALL) == EOPNOTSUPP);
	MUST(done_with(zeroes, ALL) == EBADF);
	MUST(done_with(block, ALL) == EBADF);
	MUST(done_with(&block, sizeof(block)) == EBADF);
	for (size_t i = 0; i < ALL; i++)
		MUST(block[i] == 1);
	free(block);
	munmap(shared, ALL);
	munmap(zeroes, ALL);
	MUST(done_with(zeroes, ALL) == ENOMEM && willneed(zeroes, ALL) == ENOMEM);
	close(fd);
}

/* Code comes back with the next instruction; what the loader wrote into read-only data does not, and is refused. */
static void loaded_code_goes_and_relocations_stay(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned code = 0, relocated = 0;
	char line[4400];

	MUST(f != NULL);
	while (fgets(line, sizeof(line), f) != NULL) {
		unsigned long start, end;
		char perms[5];
		int answer;

		if (sscanf(line, "%lx-%lx %4s", &start, &end, perms) != 3 || strchr(line, '/') == NULL || perms[1] == 'w' || perms[3] == 's')
			continue;
		answer = done_with((void *)start, end - start);
		MUST(answer == 0 || answer == EBUSY);
		code += answer == 0 && perms[2] == 'x';
		relocated += answer == EBUSY;
	}
	fclose(f);
	MUST(code >= 3); /* this program, libc, lull */
	MUST(relocated >= 1);
}

/* A process that changed its user may not read its own pagemap: nothing is given up that could not be looked at. */
static void what_cannot_be_looked_at_stays(const char *path)
{
	int fd, status;
	char *file = map(path, PROT_READ, MAP_PRIVATE, &fd);
	pid_t pid = geteuid() == 0 ? fork() : -1;

	if (pid == 0) {
		read_all(file);
		MUST(setresuid(65534, 65534, 65534) == 0 && prctl(PR_SET_DUMPABLE, 0) == 0);
		_exit(done_with(file, ALL) != ENOSYS);
	}
	if (pid > 0)
		MUST(waitpid(pid, &status, 0) == pid && status == 0);
	munmap(file, ALL);
	close(fd);
}

static void nothing_happens(const char *path)
{
	int fd;
	char *file = map(path, PROT_READ, MAP_PRIVATE, &fd);

	read_all(file);
	MUST(done_with(file, ALL) == 0 && willneed(file, ALL) == 0);
	MUST(done_with(NULL, 1) == 0);
	MUST(smaps_kib(file, "Rss:") == ALL / 1024);
	munmap(file, ALL);
	close(fd);
}

int main(int argc, char **argv)
{
	*(void **)&willneed = dlsym(RTLD_DEFAULT, "lull_file_willneed");
	*(void **)&done_with = dlsym(RTLD_DEFAULT, "lull_file_done_with");
	MUST(argc == 3 && willneed != NULL && done_with != NULL);
	if (strcmp(argv[2], "off") == 0) {
		nothing_happens(argv[1]);
		return 0;
	}
	whole_file_goes_and_comes_back(argv[1]);
	needed_file_is_read_ahead(argv[1]);
	written_file_stays(argv[1]);
	freshly_written_file_goes(argv[1]);
	other_mappings_are_refused(argv[1]);
	loaded_code_goes_and_relocations_stay();
	what_cannot_be_looked_at_stays(argv[1]);
	return 0;
}
