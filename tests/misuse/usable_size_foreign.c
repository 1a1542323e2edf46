/* SPDX-License-Identifier: MIT */
/* The usable size of a static variable is asked for. */
#include "misuse.h"

static _Alignas(16) char object[64];

int main(void)
{
	expect_address(object);
	return malloc_usable_size(hidden(object)) != 0;
}
