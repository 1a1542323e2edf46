/* SPDX-License-Identifier: MIT */
/*
 * A shared library that does nothing: what happens with it preloaded happens with any.
 */
extern int lull_test_empty;
int lull_test_empty;
