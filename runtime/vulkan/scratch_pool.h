#pragma once
// Memory that calls need while they run - arenas of activations, staging - lent from one pool a
// device, so that engines whose calls come one after another need it once
// (docs/design/0021-device-memory.md).

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/vulkan/memory.h"

namespace tv {

/// What runs its calls one after another: a thread of the host, or a CUDA stream. The runs of a
/// stream are ordered by barriers, so that the next may be given memory which the last still uses.
struct CallStream {
  bool on_cuda = false;
  const void* of = nullptr;
  bool operator==(const CallStream&) const = default;
};
/// That of host calls of this thread.
CallStream thread_stream();

class ScratchUser;

/// Pieces of one use. Thread-safe; nothing is allocated, freed or waited for under its lock. Users
/// go before the pool does, and the pool before the device.
///
/// A user gets, of the pieces that are free and large enough, the one that it had last, else the
/// one that its stream had last, else the smallest; a piece of another stream only if it is not far
/// too large. Where none is, one of just this size is made, in the place of smaller free ones: the
/// stream's, else the one of another stream that was used least recently. So there are no more
/// pieces than were lent at one time, but for those that are far too large for the request. The
/// n-th largest piece is kept while there are n users that once needed as much.
class ScratchPool {
 public:
  ScratchPool(Device& device, MemoryUse use) : device_(device), use_(use) {}

  /// The piece that the stream had last; 0: none.
  uint64_t last_of(const CallStream& stream) const;
  /// Frees what is not lent, after its last run; false if there was none.
  bool free_idle() noexcept;
  size_t pieces() const;

 private:
  friend class ScratchUser;
  struct Piece {
    Allocation memory;
    uint64_t id = 0;    ///< unique in the process
    CallStream stream;  ///< the last one
    uint64_t last_used = 0;
    uint64_t submission = 0;           ///< until which the device uses it, of a CUDA stream
    const ScratchUser* own = nullptr;  ///< nobody else gets it
    bool lent = false;
  };
  using Pieces = std::vector<std::unique_ptr<Piece>>;

  void add(ScratchUser& user);
  void remove(ScratchUser& user) noexcept;
  Piece& lend(int64_t bytes, const CallStream& stream, ScratchUser& user);
  Piece* find(int64_t bytes, const CallStream& stream, const ScratchUser& user);
  /// That which a piece of `bytes` is made in place of; `only_stream`: no other stream's.
  Pieces::iterator find_smaller(int64_t bytes, const CallStream& stream, const ScratchUser& user,
                                bool only_stream);
  bool is_free(Piece& piece, const CallStream& stream, const ScratchUser& user);
  Piece& make(int64_t bytes, const CallStream& stream, ScratchUser& user);
  void give_back(Piece& piece) noexcept;
  /// One that nobody needs beside the larger ones and one of `coming` bytes.
  Pieces::iterator find_surplus(int64_t coming);
  std::unique_ptr<Piece> take_out(Pieces::iterator piece) noexcept;
  void free_surplus(int64_t coming) noexcept;
  /// Frees what was taken out, without the lock.
  void end(std::unique_ptr<Piece> piece) noexcept;

  Device& device_;
  const MemoryUse use_;
  mutable std::mutex mutex_;  ///< of what follows
  Pieces pieces_;
  std::vector<ScratchUser*> users_;
  uint64_t clock_ = 0;
  bool lent_surplus_ = false;  ///< a piece that is lent may have to go when it comes back
};

/// One that borrows again and again, a piece at a time. One thread at a time.
class ScratchUser {
 public:
  /// `own`: no other user sees what is left in its memory.
  explicit ScratchUser(ScratchPool& pool, bool own = false);
  ScratchUser(const ScratchUser&) = delete;
  ~ScratchUser();

  /// Borrows at least `bytes` until `give_back`; what is in them is anyone's. Throws
  /// OutOfMemoryError.
  void borrow(int64_t bytes, const CallStream& stream);
  /// After the run or, where the stream is CUDA's, its submission.
  void give_back() noexcept;
  /// While it is lent; else an empty one.
  const Allocation& memory() const;
  /// A number that stands for the memory, and with it for its address; 0 if nothing is lent.
  uint64_t id() const { return piece_ ? last_id_ : 0; }
  uint64_t last_id() const { return last_id_; }  ///< of the last that was

 private:
  friend class ScratchPool;
  ScratchPool& pool_;
  const bool own_;
  ScratchPool::Piece* piece_ = nullptr;
  uint64_t last_id_ = 0;
  int64_t need_ = 0;  ///< the most that it borrowed; the pool's lock guards it
};

}  // namespace tv
