// Included before everything else where libraries are built for older systems than the one that builds them
// (`RECGRAPH_PORTABLE`, manylinux_2_28): names the versions of functions that those have.
#ifndef RECGRAPH_CC_PORTABLE_PORTABLE_H_
#define RECGRAPH_CC_PORTABLE_PORTABLE_H_

#include <bits/c++config.h>

// Waiting by the steady clock would call a function of glibc 2.30.
#undef _GLIBCXX_USE_PTHREAD_COND_CLOCKWAIT

#if defined(__x86_64__)
// The same functions as ever, which got new versions when they moved to another library (glibc 2.34) or were changed to
// be told apart by the type of an argument (GCC 12).
__asm__(".symver pthread_mutex_trylock,pthread_mutex_trylock@GLIBC_2.2.5");
__asm__(
    ".symver _ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE,"
    "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE@GLIBCXX_3.4.11");
#endif

#endif  // RECGRAPH_CC_PORTABLE_PORTABLE_H_
