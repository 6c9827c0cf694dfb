// What the headers of this system's libraries ask for, and older systems do not have.

#include <new>

extern "C" {

// glibc 2.32: whether the process has one thread. What asks does more work if not, and is right either way.
__attribute__((visibility("hidden"))) extern char __libc_single_threaded;
char __libc_single_threaded = 0;

// GCC 11: `std::__throw_bad_array_new_length()`.
[[noreturn]] __attribute__((visibility("hidden"))) void _ZSt28__throw_bad_array_new_lengthv();
void _ZSt28__throw_bad_array_new_lengthv() { throw std::bad_array_new_length(); }

}  // extern "C"
