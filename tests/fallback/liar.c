/* SPDX-License-Identifier: MIT */
/*
 * A kernel that says yes to MADV_DONTNEED and does nothing, as some emulators do, by any of the three ways: what was freed still holds
 * its old bytes, so calloc must clear, and nothing may be counted as returned.
 */
#include "fallback/returns.h"
#include "kernel/advise.h"
#include "kernel/caps.h"
#include "kernel/kernel.h"

static struct kernel real;

static bool drops(int advice)
{
	return advice == MADV_DONTNEED || advice == 24; /* MADV_DONTNEED_LOCKED */
}

static int lying_madvise(void *addr, size_t len, int advice)
{
	return drops(advice) ? 0 : real.madvise(addr, len, advice);
}

static ssize_t lying_process_madvise(const struct iovec *vec, size_t n, int advice)
{
	ssize_t bytes = 0;

	if (!drops(advice))
		return real.process_madvise(vec, n, advice);
	for (size_t i = 0; i < n; i++)
		bytes += (ssize_t)vec[i].iov_len;
	return bytes;
}

static ssize_t lying_ring_submit(const struct kernel_request *request, size_t n, int advice)
{
	/* MADV_COLD leaves the contents, too */
	return real.ring_submit(request, n, drops(advice) ? MADV_COLD : advice);
}

static void lie(void)
{
	real = kernel;
	kernel.madvise = lying_madvise;
	kernel.process_madvise = lying_process_madvise;
	kernel.ring_submit = lying_ring_submit;
	fact(returns_all_sizes() == 0, "nothing is said to have gone");
	fact(advise_counts().returned_bytes == 0, "nor counted");
	fact(caps_state(CAPS_DONTNEED) == CAP_STATE_BROKEN, "the lie was found");
}

static void lie_by_madvise(void)
{
	advise_set_way(ADVISE_LOOP);
	lie();
}

static void lie_by_vector(void)
{
	advise_set_way(ADVISE_VECTOR);
	lie();
}

static void lie_by_ring(void)
{
	advise_set_way(ADVISE_URING);
	lie();
}

int main(int argc, char **argv)
{
	stress_begin(argc, argv, "liar");
	returns_in_child("auto", lie);
	returns_in_child("madvise", lie_by_madvise);
	returns_in_child("process_madvise", lie_by_vector);
	returns_in_child("io_uring", lie_by_ring);
	return 0;
}
