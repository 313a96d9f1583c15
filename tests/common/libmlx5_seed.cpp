/// libmlx5 draws the flow label of an address handle from one seed without a lock, which is harmless.
/// ThreadSanitizer has not compiled libmlx5, whose copies it reports as those of memcpy(). What it has
/// compiled calls __tsan_memcpy().
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
  return "race:rand_r\nrace:getrandom\nrace_top:libmlx5.so\nrace_top:^memcpy$";
}
