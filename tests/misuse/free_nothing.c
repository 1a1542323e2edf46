/* SPDX-License-Identifier: MIT */
/* Legal: the null pointer is freed, resized and asked for its size. */
#include "misuse.h"

int main(void)
{
	free(hidden(NULL));
	free(realloc(hidden(NULL), 10));
	if (malloc_usable_size(hidden(NULL)))
		return 1;
	malloc_trim(0);
	return 0;
}
