# SPDX-License-Identifier: MIT
#
# Builds lull. Sources are found by folder, so adding a file edits no list; header dependencies are generated. Every variant has
# its own out/<variant>/. Kernel features are never decided here: the library asks the kernel it runs on.
#
# The allocator exists in two forms that differ in src/api only: with the standard names (LULL_OVERRIDE=1: liblull.so, liblull.a)
# and under its own prefix (LULL_OVERRIDE=0: liblull-prefixed.a), which the unit, stress and sanitizer tests link so that a broken
# allocator cannot take the test framework down with it.

VERSION := 0.1.0
SOVERSION := 0

VARIANTS := release debug asan tsan
# Remembered before the default is set: `make test` runs every variant unless one is asked for.
ASKED_VARIANT := $(VARIANT)
VARIANT ?= release
ifeq ($(filter $(VARIANT),$(VARIANTS)),)
$(error VARIANT=$(VARIANT) is not one of: $(VARIANTS))
endif

PREFIX ?= /usr/local
DESTDIR ?=
LIBDIR ?= $(PREFIX)/lib
OUT := out/$(VARIANT)

CC ?= cc
AR ?= ar
OBJCOPY ?= objcopy

FLAGS_release := -O2
FLAGS_debug := -O1 -DLULL_DEBUG=1
FLAGS_asan := -O1 -fno-omit-frame-pointer -fsanitize=address
FLAGS_tsan := -O1 -fno-omit-frame-pointer -fsanitize=thread
FLAGS := -g $(FLAGS_$(VARIANT)) -pthread

WARNINGS := -Wall -Wextra -Wshadow -Wvla -Wundef -Werror
C_WARNINGS := $(WARNINGS) -Wstrict-prototypes -Wmissing-prototypes
INCLUDES := -Iinclude -Isrc
VERSION_FLAG := -DLULL_VERSION='"$(VERSION)"'
# The compiler knows what malloc does and may drop or merge calls: not inside the allocator, and not in its tests.
NO_BUILTIN := -fno-builtin-malloc -fno-builtin-free -fno-builtin-calloc -fno-builtin-realloc
DEPEND = -MMD -MP -MF $@.d

# Defined empty, so that a source which needs the macro may say so itself.
# Blocks change their type with every free: what a link is today was a float yesterday. The compiler shall not reason about types in memory
# (gcc 12 takes a call for dead whose stores are read right after it).
C_FLAGS := -std=gnu17 -fno-strict-aliasing -D_GNU_SOURCE= $(C_WARNINGS) $(FLAGS) $(INCLUDES) $(NO_BUILTIN)
# initial-exec: one load to the thread's heap; the words fit the space every libc keeps for preloaded libraries.
LIB_FLAGS := $(C_FLAGS) $(VERSION_FLAG) -fPIC -fvisibility=hidden -fno-semantic-interposition -ftls-model=initial-exec
# nodelete: threads may still run in the library when a program closes it; now and relro: no writable function pointers.
SO_FLAGS := -shared -Wl,-z,defs -Wl,-z,relro -Wl,-z,now -Wl,-z,nodelete -Wl,-soname,liblull.so.$(SOVERSION)
EXPORTS := $(wildcard src/api/exports.map)
TEST_FLAGS := $(C_FLAGS) -Itests
TOOL_FLAGS := $(C_FLAGS) $(VERSION_FLAG) -Ikmod-free-tools
TOOL_LIBS := -ljansson
# The static form, so that the preload needs no library but libc; no name of it is shown by ours.
RING_LIB := -l:liburing.a
# Asked late: the package may be installed by the same run of make.
CHECK_LIBS = -Wl,--as-needed $(shell pkg-config --libs check)

# ---- what is there

CORE_SRC := $(filter-out src/api/%,$(wildcard src/*/*.c))
API_SRC := $(wildcard src/api/*.c)
TOOL_SRC := $(wildcard kmod-free-tools/*.c kmod-free-tools/common/*.c)
SUPPORT_SRC := $(wildcard tests/support/*.c)
# Tests by what they may see: the inside (linked to the prefixed form), or nothing (programs for the scripts beside them).
INSIDE_SRC := $(wildcard tests/unit/*/test_*.c tests/kernel/*.c tests/fallback/*.c tests/stress/*.c)
PLAIN_SRC := $(wildcard tests/misuse/*.c tests/tools/*.c)

CORE_OBJ := $(CORE_SRC:%.c=$(OUT)/obj/%.o)
OVERRIDE_OBJ := $(CORE_OBJ) $(API_SRC:%.c=$(OUT)/obj/override/%.o)
PREFIXED_OBJ := $(CORE_OBJ) $(API_SRC:%.c=$(OUT)/obj/prefixed/%.o)
TOOL_OBJ := $(TOOL_SRC:%.c=$(OUT)/obj/%.o)
SUPPORT_OBJ := $(SUPPORT_SRC:%.c=$(OUT)/obj/%.o)
INSIDE := $(INSIDE_SRC:%.c=$(OUT)/%)
PLAIN := $(PLAIN_SRC:%.c=$(OUT)/%)

PREFIXED := $(OUT)/liblull-prefixed.a
# A sanitizer brings its own malloc, so those variants have the prefixed form only.
ifneq ($(filter $(VARIANT),release debug),)
PRODUCTS := $(OUT)/liblull.so $(OUT)/liblull.a $(PREFIXED) $(if $(TOOL_SRC),$(OUT)/lull)
TEST_PROGRAMS := $(INSIDE) $(PLAIN)
else
PRODUCTS := $(PREFIXED)
TEST_PROGRAMS := $(INSIDE)
endif

.PHONY: all programs test test-vm demo bench-fastpath bench-seeds install uninstall clean help
.DELETE_ON_ERROR:
.SECONDARY:

all: $(PRODUCTS)

# One short line per file; V=1 shows the commands.
say = $(info $(1) $@)
Q := $(if $(V),,@)

# ---- the library

$(OUT)/liblull.so: $(OVERRIDE_OBJ) $(EXPORTS)
	$(call say,link   )$(Q)$(CC) $(FLAGS) $(SO_FLAGS) $(EXPORTS:%=-Wl,--version-script=%) -Wl,--exclude-libs,liburing.a -o $@ $(OVERRIDE_OBJ) $(RING_LIB)
	$(Q)ln -sf liblull.so $@.$(SOVERSION)

# One object with the internal names made local, so that a program's own `heap_find` cannot clash with ours.
$(OUT)/liblull.a: $(OVERRIDE_OBJ)
	$(call say,link   )$(Q)$(CC) -r -nostdlib -o $(OUT)/obj/lull.o $(OVERRIDE_OBJ) $(RING_LIB)
	$(Q)$(OBJCOPY) --localize-hidden --wildcard --localize-symbol='*io_uring_*' $(OUT)/obj/lull.o
	$(Q)rm -f $@ && $(AR) qcs $@ $(OUT)/obj/lull.o

$(PREFIXED): $(PREFIXED_OBJ)
	$(call say,archive)$(Q)rm -f $@ && $(AR) qcs $@ $^

$(OUT)/obj/src/%.o: src/%.c Makefile
	@mkdir -p $(@D)
	$(call say,compile)$(Q)$(CC) $(LIB_FLAGS) $(DEPEND) -c -o $@ $<

$(OUT)/obj/override/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(call say,compile)$(Q)$(CC) $(LIB_FLAGS) -DLULL_OVERRIDE=1 $(DEPEND) -c -o $@ $<

$(OUT)/obj/prefixed/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(call say,compile)$(Q)$(CC) $(LIB_FLAGS) -DLULL_OVERRIDE=0 $(DEPEND) -c -o $@ $<

# ---- the command

$(OUT)/lull: $(TOOL_OBJ) $(PREFIXED)
	$(call say,link   )$(Q)$(CC) $(FLAGS) -o $@ $^ $(TOOL_LIBS) $(RING_LIB)

$(OUT)/obj/kmod-free-tools/%.o: kmod-free-tools/%.c Makefile
	@mkdir -p $(@D)
	$(call say,compile)$(Q)$(CC) $(TOOL_FLAGS) $(DEPEND) -c -o $@ $<

# ---- test programs, one source each

programs: $(TEST_PROGRAMS)

$(OUT)/obj/tests/%.o: tests/%.c Makefile
	@mkdir -p $(@D)
	$(call say,compile)$(Q)$(CC) $(TEST_FLAGS) $(DEPEND) -c -o $@ $<

$(OUT)/tests/libsupport.a: $(SUPPORT_OBJ)
	@mkdir -p $(@D)
	$(call say,archive)$(Q)rm -f $@ && $(AR) qcs $@ $^

$(INSIDE): $(OUT)/%: $(OUT)/obj/%.o $(OUT)/tests/libsupport.a $(PREFIXED)
	@mkdir -p $(@D)
	$(call say,link   )$(Q)$(CC) $(FLAGS) -o $@ $^ $(CHECK_LIBS) $(RING_LIB)

$(PLAIN): $(OUT)/%: $(OUT)/obj/%.o
	@mkdir -p $(@D)
	$(call say,link   )$(Q)$(CC) $(FLAGS) -o $@ $^

# ---- running things

# As many jobs as processors, unless the caller chose (then its job server is inherited).
JOBS = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(shell nproc))
TEST_VARIANTS := $(or $(ASKED_VARIANT),$(VARIANTS))
# T selects tests by a part of their name.
T ?=

test:
	tests/deps test
	for variant in $(TEST_VARIANTS); do $(MAKE) $(JOBS) --no-print-directory VARIANT=$$variant all programs || exit 1; done
	tests/run $(if $(T),-t '$(T)') $(TEST_VARIANTS)

test-vm:
	$(MAKE) --no-print-directory VARIANT=release ASKED_VARIANT=release T=release/vm/ test

demo:
	tests/deps demo
	$(MAKE) $(JOBS) --no-print-directory VARIANT=release all
	tests/demo/run out/release

bench-fastpath:
	tests/deps test
	$(MAKE) $(JOBS) --no-print-directory VARIANT=release all
	tests/bench/fastpath/run out/release

bench-seeds:
	tests/deps test
	$(MAKE) $(JOBS) --no-print-directory VARIANT=release all
	tests/bench/seeds/run

# ---- installing

MAN3 := $(wildcard src/man/*.3)
MAN7 := $(wildcard src/man/*.7)
MAN1 := $(wildcard kmod-free-tools/man/*.1)
HEADERS := $(wildcard include/lull/*.h)
DEST = $(DESTDIR)$(PREFIX)

install: $(PRODUCTS)
	install -d $(DESTDIR)$(LIBDIR)/pkgconfig $(DEST)/include/lull $(DEST)/bin
	install -m 755 $(OUT)/liblull.so $(DESTDIR)$(LIBDIR)/liblull.so.$(SOVERSION)
	ln -sf liblull.so.$(SOVERSION) $(DESTDIR)$(LIBDIR)/liblull.so
	install -m 644 $(OUT)/liblull.a $(DESTDIR)$(LIBDIR)
	install -m 644 $(HEADERS) $(DEST)/include/lull
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@VERSION@|$(VERSION)|' lull.pc.in >$(DESTDIR)$(LIBDIR)/pkgconfig/lull.pc
	$(if $(TOOL_SRC),install -m 755 $(OUT)/lull $(DEST)/bin)
	$(if $(MAN1),install -D -m 644 -t $(DEST)/share/man/man1 $(MAN1))
	$(if $(MAN3),install -D -m 644 -t $(DEST)/share/man/man3 $(MAN3))
	$(if $(MAN7),install -D -m 644 -t $(DEST)/share/man/man7 $(MAN7))

uninstall:
	rm -f $(DESTDIR)$(LIBDIR)/liblull.so.$(SOVERSION) $(DESTDIR)$(LIBDIR)/liblull.so $(DESTDIR)$(LIBDIR)/liblull.a
	rm -f $(DESTDIR)$(LIBDIR)/pkgconfig/lull.pc $(DEST)/bin/lull
	rm -rf $(DEST)/include/lull
	rm -f $(MAN1:kmod-free-tools/man/%=$(DEST)/share/man/man1/%)
	rm -f $(MAN3:src/man/%=$(DEST)/share/man/man3/%) $(MAN7:src/man/%=$(DEST)/share/man/man7/%)

clean:
	rm -rf out

help:
	@echo 'targets'
	@echo '  all             the library and the command, in out/VARIANT/ (default)'
	@echo '  test            install what is missing, build, run the tests'
	@echo '  test-vm         only the tests on other kernels, in emulated machines'
	@echo '  demo            redis under glibc, jemalloc and lull in turn: memory over time'
	@echo '  bench-fastpath  instructions per malloc+free pair, beside other allocators'
	@echo '  bench-seeds     memory kept, faults and late wake-ups, beside other allocators'
	@echo '  programs        the test programs, without running them'
	@echo '  install         library, headers, command, man pages and pkg-config file'
	@echo '  uninstall       remove what install put there'
	@echo '  clean           remove out/'
	@echo '  help            this text'
	@echo 'variables'
	@echo '  VARIANT=        release (default), debug (assertions), asan, tsan (sanitizers);'
	@echo '                  for test: only this variant instead of all four'
	@echo '  T=              for test: only tests with this in their name, e.g. T=page'
	@echo '  PREFIX=         for install, default /usr/local'
	@echo '  LIBDIR=         for install, default PREFIX/lib'
	@echo '  DESTDIR=        for install: put everything under this folder'
	@echo '  CC=             the compiler, default cc'
	@echo '  V=1             show the commands'

-include $(shell find $(OUT) -name '*.d' 2>/dev/null)
