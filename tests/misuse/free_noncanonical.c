/* SPDX-License-Identifier: MIT */
/* The freed pointer is no address at all: its upper bits are wrong. */
#include "misuse.h"

int main(void)
{
	char *p = (char *)((uintptr_t)malloc(64) | UINT64_C(0x5a5a000000000000));
	expect_address(p);
	free(hidden(p));
	return 0;
}
