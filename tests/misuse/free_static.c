/* SPDX-License-Identifier: MIT */
/* The freed pointer points to a static variable. */
#include "misuse.h"

static _Alignas(16) char object[64];

int main(void)
{
	expect_address(object);
	free(hidden(object));
	return 0;
}
