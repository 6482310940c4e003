// Which keys a query sees by its place: those up to it, and with WINDOW > 0 no more than so many.
// The first query has place 0, or with PLACED the number in `first`.

#if PLACED
const int FAR = 0x40000000;  // from every key: which place it is does not matter
#define FIRST_QUERY \
  (first_load(0u) < -FAR ? -FAR : first_load(0u) > FAR ? FAR : int(first_load(0u)))
#else
#define FIRST_QUERY 0
#endif

#if WINDOW
#define SEES(place, n) (int(n) <= (place) && int(n) > (place) - WINDOW)
#else
#define SEES(place, n) (int(n) <= (place))
#endif

/// Behind the last key that a query at `place` sees.
uint seen_end(const int place) { return uint(clamp(place + 1, 0, int(keys))); }

/// The first key that it sees.
uint seen_begin(const int place) {
#if WINDOW
  return uint(clamp(place + 1 - WINDOW, 0, int(keys)));
#else
  return 0u;
#endif
}
