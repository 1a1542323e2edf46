/* SPDX-License-Identifier: MIT */
/*
 * Every capability has an answer on this kernel: it works, the kernel does not have it, or it is not for us. None is broken, which
 * is what a probe says that does not understand what it sees. The last line names those that are missing; tests/run shows it.
 */
#include "kernel/caps.h"
#include "support/fact.h"

static bool print_state(enum cap_state state, bool first)
{
	bool any = false;

	for (int cap = 0; cap < CAPS_COUNT; cap++) {
		if (caps_state((enum cap)cap) != state)
			continue;
		if (!any)
			printf("%s%s: ", first ? "" : "; ", caps_state_name(state));
		printf("%s%s", any ? ", " : "", caps_name((enum cap)cap));
		any = true;
	}
	return first && !any;
}

int main(void)
{
	static const enum cap_state missing[] = {CAP_STATE_ABSENT, CAP_STATE_NOT_PERMITTED, CAP_STATE_BROKEN, CAP_STATE_UNKNOWN};
	bool first = true;

	for (int cap = 0; cap < CAPS_COUNT; cap++)
		caps_has((enum cap)cap);
	for (size_t i = 0; i < array_len(missing); i++)
		first = print_state(missing[i], first);
	printf("%s\n", first ? "all live" : "");
	for (int cap = 0; cap < CAPS_COUNT; cap++) {
		enum cap_state state = caps_state((enum cap)cap);

		if (state == CAP_STATE_BROKEN || state == CAP_STATE_UNKNOWN)
			return 1;
	}
	return 0;
}
