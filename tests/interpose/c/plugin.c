/* SPDX-License-Identifier: MIT */
/*
 * A library that a program opens and closes: allocates in its constructor, holds much thread-local memory (which the loader
 * allocates for each thread that touches it, with malloc), frees in its destructor.
 */
#include "blocks.h"

extern struct block *plugin_make(size_t size);
extern void plugin_drop(struct block *b);

static struct block *constructed;
static _Thread_local char much[40000];
static _Thread_local unsigned calls = 7;

__attribute__((constructor)) static void construct(void)
{
	constructed = block_new(1234, 11);
	blocks_churn(50, 11);
}

__attribute__((destructor)) static void destruct(void)
{
	block_drop(constructed);
	blocks_churn(50, 12);
}

struct block *plugin_make(size_t size)
{
	for (size_t i = 0; i < sizeof(much); i += 1000)
		MUST(much[i] == (calls > 7));
	for (size_t i = 0; i < sizeof(much); i += 1000)
		much[i] = 1;
	return block_new(size, calls++);
}

void plugin_drop(struct block *b)
{
	block_check(constructed);
	block_drop(b);
}
