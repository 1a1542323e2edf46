/* SPDX-License-Identifier: MIT */
/*
 * Every operator new and delete of C++17 with blocks of many sizes, what happens when there is no memory, and the library classes
 * that allocate. Prints what happened; the same must come out whichever allocator is there.
 */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <list>
#include <map>
#include <memory>
#include <memory_resource>
#include <new>
#include <string>
#include <thread>
#include <vector>

#define MUST(condition)                                                                                                                    \
	do {                                                                                                                                   \
		if (!(condition)) {                                                                                                                \
			fprintf(stderr, "line %d: not so: %s\n", __LINE__, #condition);                                                                \
			abort();                                                                                                                       \
		}                                                                                                                                  \
	} while (0)

static const std::size_t impossible = SIZE_MAX / 2 - 100;
static int handler_calls;

struct counted {
	static int live;
	static int throw_at;
	std::string name{"a string too long to be kept inside its object"};
	counted()
	{
		if (throw_at && live + 1 == throw_at)
			throw std::runtime_error("constructor");
		live++;
	}
	~counted()
	{
		live--;
	}
};
int counted::live, counted::throw_at;

struct alignas(256) wide {
	char bytes[700];
};

static void fill(void *p, std::size_t size, std::size_t align)
{
	MUST(p && reinterpret_cast<std::uintptr_t>(p) % align == 0);
	std::memset(p, 0xa5, size);
}

static void plain_operators(std::size_t n)
{
	void *p = ::operator new(n);
	fill(p, n, 1);
	::operator delete(p);
	p = ::operator new(n);
	fill(p, n, 1);
	::operator delete(p, n);
	p = ::operator new[](n);
	fill(p, n, 1);
	::operator delete[](p);
	p = ::operator new[](n);
	fill(p, n, 1);
	::operator delete[](p, n);
	p = ::operator new(n, std::nothrow);
	fill(p, n, 1);
	::operator delete(p, std::nothrow);
	p = ::operator new[](n, std::nothrow);
	fill(p, n, 1);
	::operator delete[](p, std::nothrow);
}

static void aligned_operators(std::size_t n, std::size_t align)
{
	const auto a = std::align_val_t(align);
	void *p = ::operator new(n, a);
	fill(p, n, align);
	::operator delete(p, a);
	p = ::operator new(n, a);
	fill(p, n, align);
	::operator delete(p, n, a);
	p = ::operator new[](n, a);
	fill(p, n, align);
	::operator delete[](p, a);
	p = ::operator new[](n, a);
	fill(p, n, align);
	::operator delete[](p, n, a);
	p = ::operator new(n, a, std::nothrow);
	fill(p, n, align);
	::operator delete(p, a, std::nothrow);
	p = ::operator new[](n, a, std::nothrow);
	fill(p, n, align);
	::operator delete[](p, a, std::nothrow);
}

static void operators()
{
	for (std::size_t n : {0, 1, 7, 8, 16, 17, 100, 1000, 1024, 8192, 8193, 65536, 65537, 524288, 524289, 3000000}) {
		plain_operators(n);
		for (std::size_t align = 8; align <= 65536; align *= 2)
			aligned_operators(n, align);
	}
	delete new int(1);
	delete[] new wide[3];
	delete new wide;
	operator delete(nullptr);
	operator delete[](nullptr, std::align_val_t(64));
	std::puts("operators");
}

template <class F> static void must_throw(const char *what, F f)
{
	try {
		f();
		std::printf("%s: nothing thrown\n", what);
	} catch (const std::bad_array_new_length &e) {
		std::printf("%s: bad_array_new_length\n", what);
	} catch (const std::bad_alloc &e) {
		std::printf("%s: %s\n", what, e.what());
	}
}

static void no_memory()
{
	volatile std::size_t n = impossible;
	const auto a = std::align_val_t(64);

	must_throw("new", [&] { ::operator delete(::operator new(n)); });
	must_throw("new[]", [&] { ::operator delete[](::operator new[](n)); });
	must_throw("aligned new", [&] { ::operator delete(::operator new(n, a), a); });
	must_throw("aligned new[]", [&] { ::operator delete[](::operator new[](n, a), a); });
	must_throw("array", [&] { delete[] new long[n]; });
	must_throw("vector", [&] {
		std::vector<char> v;
		v.reserve(n);
	});
	std::printf("nothrow: %d %d %d %d\n", !::operator new(n, std::nothrow), !::operator new[](n, std::nothrow),
		!::operator new(n, a, std::nothrow), !::operator new[](n, a, std::nothrow));
}

/* The handler is asked again until it throws, or removes itself, which ends in bad_alloc. */
static void new_handler()
{
	volatile std::size_t n = impossible;

	std::set_new_handler([] {
		if (++handler_calls == 3)
			throw std::bad_alloc();
	});
	must_throw("handler that throws", [&] { ::operator delete(::operator new(n)); });
	std::printf("calls %d\n", handler_calls);
	handler_calls = 0;
	std::printf("nothrow: %d\n", ::operator new(n, std::nothrow) == nullptr);
	std::printf("calls %d\n", handler_calls);
	handler_calls = 10;
	std::set_new_handler([] {
		handler_calls++;
		std::set_new_handler(nullptr);
	});
	must_throw("handler that leaves", [&] { ::operator delete[](::operator new[](n)); });
	std::printf("calls %d, none left: %d\n", handler_calls, std::get_new_handler() == nullptr);
}

static void exceptions()
{
	counted::throw_at = 50;
	try {
		delete[] new counted[100];
	} catch (const std::runtime_error &e) {
		std::printf("thrown by a %s, %d live\n", e.what(), counted::live);
	}
	counted::throw_at = 0;
	delete[] new counted[100];
	int caught = 0;
	std::vector<std::thread> threads;
	std::atomic<int> all{0};
	for (int t = 0; t < 6; t++)
		threads.emplace_back([&all] {
			for (int i = 0; i < 300; i++)
				try {
					std::string text(static_cast<std::size_t>(i) * 10, 'x');
					throw std::runtime_error(text);
				} catch (const std::exception &e) {
					all += std::strlen(e.what()) == static_cast<std::size_t>(i) * 10;
				}
		});
	for (auto &t : threads)
		t.join();
	try {
		std::async(std::launch::async, [] { throw std::bad_alloc(); }).get();
	} catch (const std::bad_alloc &) {
		caught++;
	}
	std::printf("exceptions %d %d\n", all.load(), caught);
}

struct per_thread {
	std::map<int, std::string> map;
	~per_thread()
	{
		std::vector<std::string> last(50, std::string(100, 'z'));
		map.clear();
	}
};
static thread_local per_thread local;

static void containers()
{
	std::vector<std::unique_ptr<std::string>> moved;
	std::mutex lock;
	std::vector<std::thread> threads;
	for (int t = 0; t < 8; t++)
		threads.emplace_back([&, t] {
			for (int i = 0; i < 500; i++) {
				local.map[i * 7919 % 331] += std::string(static_cast<std::size_t>(i % 50), static_cast<char>('a' + t));
				std::lock_guard<std::mutex> guard(lock);
				moved.push_back(std::make_unique<std::string>(static_cast<std::size_t>(i), 'm'));
				if (moved.size() > 300)
					moved.erase(moved.begin() + i % 100);
			}
		});
	for (auto &t : threads)
		t.join();
	std::list<std::shared_ptr<wide>> list;
	for (int i = 0; i < 300; i++)
		list.push_back(std::make_shared<wide>());
	list.remove_if([](const auto &w) { return reinterpret_cast<std::uintptr_t>(w.get()) % 256 != 0; });
	std::pmr::unsynchronized_pool_resource pool;
	std::pmr::vector<std::pmr::string> strings(&pool);
	for (int i = 0; i < 2000; i++)
		strings.emplace_back(static_cast<std::size_t>(i % 300), 'p');
	std::printf("containers %zu %zu %zu\n", moved.size(), list.size(), strings.size());
}

/* Allocates before main and frees after it. */
static std::map<std::string, std::vector<int>> global{{"a", std::vector<int>(1000, 1)}, {"b", std::vector<int>(100000, 2)}};

int main()
{
	operators();
	no_memory();
	new_handler();
	exceptions();
	containers();
	std::printf("global %zu\n", global["b"].size());
	global["c"].resize(5000);
	return 0;
}
