/* SPDX-License-Identifier: MIT */
/*
 * operator new and delete in all their forms, linked against the library: size, alignment, what happens when there is no memory (an
 * exception, NULL for nothrow, the new-handler called until it gives up), and that every form of delete takes what every form of new
 * gave, as blocks of malloc are. The compiler is kept from dropping pairs: the operators are called by name.
 */
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

static int failures;
static int handler_calls;

static void check(bool ok, const char *what, size_t size)
{
	if (ok)
		return;
	std::fprintf(stderr, "new_delete: %s, size %zu\n", what, size);
	failures++;
}

static size_t opaque(size_t size)
{
	volatile size_t same = size;
	return same;
}

static void use(void *p, size_t size, size_t align, const char *what)
{
	check(p != nullptr, what, size);
	check(reinterpret_cast<uintptr_t>(p) % align == 0, "misaligned", size);
	check(malloc_usable_size(p) >= size, "too small", size);
	std::memset(p, 0x5a, size);
}

static void plain_forms(size_t size)
{
	void *p = ::operator new(size);
	use(p, size, 16, "operator new");
	::operator delete(p);
	p = ::operator new[](size);
	use(p, size, 16, "operator new[]");
	::operator delete[](p);
	p = ::operator new(size, std::nothrow);
	use(p, size, 16, "operator new nothrow");
	::operator delete(p, std::nothrow);
	p = ::operator new[](size, std::nothrow);
	use(p, size, 16, "operator new[] nothrow");
	::operator delete[](p, std::nothrow);
	p = ::operator new(size);
	::operator delete(p, size);
	p = ::operator new[](size);
	::operator delete[](p, size);
}

static void aligned_forms(size_t size, size_t align)
{
	const std::align_val_t al{align};
	void *p = ::operator new(size, al);
	use(p, size, align, "aligned operator new");
	::operator delete(p, al);
	p = ::operator new[](size, al);
	use(p, size, align, "aligned operator new[]");
	::operator delete[](p, al);
	p = ::operator new(size, al, std::nothrow);
	use(p, size, align, "aligned operator new nothrow");
	::operator delete(p, al, std::nothrow);
	p = ::operator new[](size, al, std::nothrow);
	use(p, size, align, "aligned operator new[] nothrow");
	::operator delete[](p, al, std::nothrow);
	p = ::operator new(size, al);
	::operator delete(p, size, al);
	p = ::operator new[](size, al);
	::operator delete[](p, size, al);
}

static void count_and_give_up()
{
	if (++handler_calls == 3)
		std::set_new_handler(nullptr);
}

struct no_more {
};

static void throw_own()
{
	throw no_more{};
}

template <class F> static bool throws_bad_alloc(F f)
{
	try {
		f();
	} catch (const std::bad_alloc &) {
		return true;
	}
	return false;
}

static void too_large(size_t size)
{
	const std::align_val_t al{256};
	check(throws_bad_alloc([&] { ::operator delete(::operator new(size)); }), "no bad_alloc from new", size);
	check(throws_bad_alloc([&] { ::operator delete[](::operator new[](size)); }), "no bad_alloc from new[]", size);
	check(throws_bad_alloc([&] { ::operator delete(::operator new(size, al), al); }), "no bad_alloc from aligned new", size);
	check(throws_bad_alloc([&] { ::operator delete[](::operator new[](size, al), al); }), "no bad_alloc from aligned new[]", size);
	check(!::operator new(size, std::nothrow), "nothrow new is not null", size);
	check(!::operator new[](size, std::nothrow), "nothrow new[] is not null", size);
	check(!::operator new(size, al, std::nothrow), "nothrow aligned new is not null", size);
	check(!::operator new[](size, al, std::nothrow), "nothrow aligned new[] is not null", size);
}

static void handlers(size_t size)
{
	handler_calls = 0;
	std::set_new_handler(count_and_give_up);
	check(throws_bad_alloc([&] { ::operator delete(::operator new(size)); }), "no bad_alloc after the handler gave up", size);
	check(handler_calls == 3, "the handler was not called three times", size);
	handler_calls = 0;
	std::set_new_handler(count_and_give_up);
	check(!::operator new(size, std::nothrow), "nothrow new with a handler is not null", size);
	check(handler_calls == 3, "the handler was not called three times by nothrow new", size);
	std::set_new_handler(throw_own);
	bool own = false;
	try {
		::operator delete(::operator new(size));
	} catch (const no_more &) {
		own = true;
	}
	check(own, "the handler's own exception did not come through", size);
	std::set_new_handler(nullptr);
}

static void mixes_with_malloc()
{
	void *p = ::operator new(100);
	std::free(p);
	p = std::malloc(100);
	::operator delete(p);
	::operator delete(nullptr);
	::operator delete[](nullptr);
	::operator delete (nullptr, std::align_val_t{64});
	errno = 77;
	::operator delete(::operator new(5000));
	check(errno == 77, "delete changed errno", 5000);
}

struct alignas(1024) wide {
	char bytes[3000];
};

static void containers()
{
	std::vector<std::string> words;
	for (int i = 0; i < 20000; i++)
		words.push_back("word number " + std::to_string(i) + " is longer than what a string keeps in itself");
	std::thread other([&] {
		words.clear();
		words.shrink_to_fit();
	});
	other.join();
	auto one = std::make_unique<wide>();
	std::vector<wide> many(10);
	check(reinterpret_cast<uintptr_t>(one.get()) % 1024 == 0, "an over-aligned object", sizeof(wide));
	check(reinterpret_cast<uintptr_t>(many.data()) % 1024 == 0, "an over-aligned array", sizeof(wide));
}

int main()
{
	static const size_t sizes[] = {0, 1, 8, 16, 17, 100, 1000, 5000, 20000, 100000, 1000000, 5000000};
	for (size_t size : sizes) {
		plain_forms(opaque(size));
		for (size_t align = 16; align <= (size_t{1} << 20); align *= 4)
			aligned_forms(opaque(size), align);
	}
	too_large(opaque(SIZE_MAX));
	too_large(opaque(SIZE_MAX / 2 + 1));
	handlers(opaque(SIZE_MAX / 2 + 1));
	mixes_with_malloc();
	containers();
	if (failures == 0)
		std::puts("new_delete: all forms");
	return failures != 0;
}
