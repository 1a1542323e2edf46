/* SPDX-License-Identifier: MIT */
/* The resized pointer points to a static variable. */
#include "misuse.h"

static _Alignas(16) char object[64];

int main(void)
{
	expect_address(object);
	free(realloc(hidden(object), 128));
	return 0;
}
