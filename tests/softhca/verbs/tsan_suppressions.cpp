/// What ThreadSanitizer is not to report of programs that post and poll by libmlx5.
///
/// libmlx5 is not instrumented, so ThreadSanitizer sees neither its doorbells nor its look at a completion's
/// owner bit, and with them not what orders the program's use of a buffer before or after the engine's. That
/// order is libmlx5's own; only the engine's accesses to payload are left out, everything else stays watched.
extern "C" const char*
__tsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier): the runtime's name
  return "race:^CopyPiece$\n";
}
