/* The first process of every pod: holds the pod's namespaces, reaps children, ends when asked.
   No C library, so that a bare compiler builds it. Signals are waited for, not handled: blocked ones reach even
   process 1, for which the kernel otherwise drops every signal without a handler. */
#define SIGINT 2
#define SIGTERM 15
#define SIGCHLD 17
#define BIT(signal) (1UL << ((signal) - 1))
#define WNOHANG 1

#if defined(__x86_64__)
enum { SYS_procmask = 14, SYS_wait4 = 61, SYS_exit = 60, SYS_sigtimedwait = 128 };
static long call(long n, long a, long b, long c, long d) {
    long result;
    register long r10 __asm__("r10") = d;
    __asm__ volatile("syscall" : "=a"(result) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
enum { SYS_procmask = 135, SYS_wait4 = 260, SYS_exit = 93, SYS_sigtimedwait = 137 };
static long call(long n, long a, long b, long c, long d) {
    register long x8 __asm__("x8") = n, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c,
                  x3 __asm__("x3") = d;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
    return x0;
}
#else
#error "pause: add this machine's system calls"
#endif

void _start(void) {
    unsigned long signals = BIT(SIGINT) | BIT(SIGTERM) | BIT(SIGCHLD);
    call(SYS_procmask, 0, (long)&signals, 0, sizeof signals);
    for (;;) {
        long signal = call(SYS_sigtimedwait, (long)&signals, 0, 0, sizeof signals);
        if (signal == SIGINT || signal == SIGTERM) call(SYS_exit, 0, 0, 0, 0);
        while (call(SYS_wait4, -1, 0, WNOHANG, 0) > 0) {}
    }
}
