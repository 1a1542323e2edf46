/* SPDX-License-Identifier: MIT */
/* The freed pointer points to where nothing was ever mapped. */
#include "misuse.h"

int main(void)
{
	free(malloc(64));
	expect_address((void *)0x10000);
	free(hidden((void *)0x10000));
	return 0;
}
