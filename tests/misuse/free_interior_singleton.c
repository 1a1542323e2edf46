/* SPDX-License-Identifier: MIT */
/* The freed pointer points into a block with a mapping of its own. */
#include "misuse.h"

int main(void)
{
	char *p = malloc(SINGLETON);
	expect_address(p + SINGLETON / 2);
	free(hidden(p + SINGLETON / 2));
	return 0;
}
