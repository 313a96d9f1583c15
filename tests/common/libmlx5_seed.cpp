/// ThreadSanitizer does not see how libmlx5 synchronizes, as it has not compiled it: what libmlx5 itself accesses and locks
/// does not count. The seed of its flow labels, drawn without a lock, is harmless.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
  return "race:rand_r\nrace:getrandom\nrace_top:libmlx5.so\ncalled_from_lib:libmlx5.so\nmutex:infiniband/verbs.h";
}
