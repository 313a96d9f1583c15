// A driver that is too old: it exports only the first function.
extern "C" int cuInit(unsigned) { return 0; }
