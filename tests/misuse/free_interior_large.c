/* SPDX-License-Identifier: MIT */
/* The freed pointer points into a large block. */
#include "misuse.h"

int main(void)
{
	char *p = malloc(LARGE);
	expect_address(p + 4096);
	free(hidden(p + 4096));
	return 0;
}
