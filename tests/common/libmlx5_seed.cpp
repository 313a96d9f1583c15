/// libmlx5 draws the flow label of an address handle from one seed without a lock, which is harmless. ThreadSanitizer has not
/// compiled libmlx5.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() { return "race:rand_r\nrace:getrandom\nrace_top:libmlx5.so"; }
