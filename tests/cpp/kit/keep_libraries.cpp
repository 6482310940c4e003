// Under AddressSanitizer libraries stay loaded, so that what a driver keeps for the process (Mesa:
// which of an AMD CPU's cores share a cache) is found where it is kept, and is no leak.

#if defined(__has_feature)
#if __has_feature(address_sanitizer)

extern "C" int dlclose(void* /*library*/) { return 0; }

#endif
#endif
