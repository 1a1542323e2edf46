/* SPDX-License-Identifier: MIT */
/*
 * From what was found to what it means: for every capability and every fact around a process why it is so, what lull loses by it, and what
 * would change it. No input but its arguments.
 */
#ifndef LULL_TOOLS_DIAGNOSIS_H
#define LULL_TOOLS_DIAGNOSIS_H

#include "common/facts.h"
#include "kernel/caps.h"

/* With its end: a line of its own below 80 columns, behind 21 of label. */
#define DIAGNOSIS_TEXT 59

struct finding {
	const char *name;
	char state[DIAGNOSIS_TEXT];   /* a capability's state by name; a fact's value */
	char why[DIAGNOSIS_TEXT];     /* empty: nothing to say */
	const char *without;          /* what lull loses; NULL: nothing */
	char change[DIAGNOSIS_TEXT];  /* what would change it; empty: nothing needs to */
	const char *calls;            /* system calls a filter must let through for it; NULL: none, or it is no filter's doing */
	bool is_loss;                 /* not as it should be, and that costs */
};

/* What one process's lull has to say about one capability. */
struct cap_answer {
	enum cap_state state;
	int reason;         /* as caps_reason; 0 where it is not known */
	enum cap lacks;     /* what it stands on and is not live; itself: nothing */
	bool door_is_open;  /* userfaultfd is live one way or the other */
	bool is_minimal;    /* the program installed a filter */
};

/* Capabilities in the order of what their loss costs, CAPS_COUNT of them. */
enum cap diagnosis_cap(size_t i);
void diagnosis_of_cap(enum cap cap, const struct cap_answer *answer, const struct facts *facts, struct finding *ret);

/* Facts, diagnosis_n_facts of them. */
size_t diagnosis_n_facts(void);
void diagnosis_of_fact(size_t i, const struct facts *facts, struct finding *ret);

#endif
