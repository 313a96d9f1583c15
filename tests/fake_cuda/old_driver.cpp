// A driver that is too old: it has none of the functions but the first.
extern "C" int cuInit(unsigned) { return 0; }
