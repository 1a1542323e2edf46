/* SPDX-License-Identifier: MIT */
/* The freed pointer points into a medium block. */
#include "misuse.h"

int main(void)
{
	char *p = malloc(MEDIUM);
	expect_address(p + 4096);
	free(hidden(p + 4096));
	return 0;
}
