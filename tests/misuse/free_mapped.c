/* SPDX-License-Identifier: MIT */
/* The freed pointer is the start of the program's own mapping. */
#include "misuse.h"

int main(void)
{
	void *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return 3;
	free(malloc(64));
	expect_address(p);
	free(hidden(p));
	return 0;
}
