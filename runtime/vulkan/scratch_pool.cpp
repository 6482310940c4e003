#include "runtime/vulkan/scratch_pool.h"

#include <algorithm>
#include <atomic>
#include <tuple>

#include "runtime/vulkan/device_impl.h"
#include "runtime/vulkan/process_state.h"

namespace tv {
namespace {

std::atomic<uint64_t> next_id{1};

/// Whether a user may occupy a piece which another stream may want for what it was made for.
bool fits_well(int64_t size, int64_t bytes) {
  constexpr int64_t kSlackBytes = 1 << 20;
  return size / 4 <= bytes + kSlackBytes / 4;
}

}  // namespace

CallStream thread_stream() {
  static thread_local const char here = 0;
  return {false, &here};
}

uint64_t ScratchPool::last_of(const CallStream& stream) const {
  const std::lock_guard lock(mutex_);
  const Piece* last = nullptr;
  for (const auto& piece : pieces_) {
    if (piece->stream == stream && (!last || piece->last_used > last->last_used))
      last = piece.get();
  }
  return last ? last->id : 0;
}

size_t ScratchPool::pieces() const {
  const std::lock_guard lock(mutex_);
  return pieces_.size();
}

void ScratchPool::add(ScratchUser& user) {
  const std::lock_guard lock(mutex_);
  users_.push_back(&user);
}

void ScratchPool::remove(ScratchUser& user) noexcept {
  std::unique_ptr<Piece> owned;
  {
    const std::lock_guard lock(mutex_);
    users_.erase(std::find(users_.begin(), users_.end(), &user));
    const auto own = std::find_if(pieces_.begin(), pieces_.end(),
                                  [&](const auto& piece) { return piece->own == &user; });
    if (own != pieces_.end()) owned = take_out(own);
    lent_surplus_ = true;
  }
  end(std::move(owned));
  free_surplus(0);
}

ScratchPool::Piece& ScratchPool::lend(int64_t bytes, const CallStream& stream, ScratchUser& user) {
  for (bool replaced = false;; replaced = true) {
    std::unique_ptr<Piece> smaller;  // goes first, so that both never live at once
    {
      const std::lock_guard lock(mutex_);
      user.need_ = std::max(user.need_, bytes);
      if (Piece* piece = find(bytes, stream, user)) {
        piece->lent = true;
        piece->stream = stream;
        piece->last_used = ++clock_;
        return *piece;
      }
      const auto found = find_smaller(bytes, stream, user, replaced);
      if (found == pieces_.end()) break;
      smaller = take_out(found);
    }
    end(std::move(smaller));
  }
  return make(bytes, stream, user);
}

bool ScratchPool::is_free(Piece& piece, const CallStream& stream, const ScratchUser& user) {
  if (piece.lent || piece.own != (user.own_ ? &user : nullptr)) return false;
  if (piece.submission == 0 || (stream.on_cuda && piece.stream == stream)) return true;
  if (!device_.finished(piece.submission)) return false;
  piece.submission = 0;
  return true;
}

ScratchPool::Piece* ScratchPool::find(int64_t bytes, const CallStream& stream,
                                      const ScratchUser& user) {
  const auto rank = [&](const Piece& piece) {
    const bool of_stream = piece.stream == stream;
    return std::tuple(piece.id == user.last_id_, of_stream ? piece.last_used : 0,
                      -piece.memory.size_bytes());
  };
  Piece* best = nullptr;
  for (const auto& piece : pieces_) {
    const int64_t size = piece->memory.size_bytes();
    if (size < bytes || (best && rank(*piece) < rank(*best))) continue;
    if (piece->stream != stream && !fits_well(size, bytes)) continue;
    if (is_free(*piece, stream, user)) best = piece.get();
  }
  return best;
}

ScratchPool::Pieces::iterator ScratchPool::find_smaller(int64_t bytes, const CallStream& stream,
                                                        const ScratchUser& user, bool only_stream) {
  auto found = pieces_.end();
  for (auto at = pieces_.begin(); at != pieces_.end(); ++at) {
    Piece& piece = **at;
    if (piece.memory.size_bytes() >= bytes || !is_free(piece, stream, user)) continue;
    if (piece.stream == stream) return at;
    if (only_stream) continue;
    if (found == pieces_.end() || piece.last_used < (*found)->last_used) found = at;
  }
  return found;
}

ScratchPool::Piece& ScratchPool::make(int64_t bytes, const CallStream& stream, ScratchUser& user) {
  if (!user.own_) free_surplus(bytes);
  auto fresh = std::make_unique<Piece>();
  fresh->memory = Allocation(device_, bytes, use_);
  fresh->id = next_id++;
  fresh->stream = stream;
  fresh->own = user.own_ ? &user : nullptr;
  fresh->lent = true;
  const std::lock_guard lock(mutex_);
  fresh->last_used = ++clock_;
  lent_surplus_ = true;
  pieces_.push_back(std::move(fresh));
  return *pieces_.back();
}

void ScratchPool::give_back(Piece& piece) noexcept {
  bool surplus = false;
  {
    const std::lock_guard lock(mutex_);
    piece.lent = false;
    // That of the run or a later one: also where an error hid its number.
    piece.submission = piece.stream.on_cuda ? device_.submitted() : 0;
    surplus = lent_surplus_;
  }
  if (surplus) free_surplus(0);
}

ScratchPool::Pieces::iterator ScratchPool::find_surplus(int64_t coming) {
  auto found = pieces_.end();
  lent_surplus_ = false;
  for (auto at = pieces_.begin(); at != pieces_.end(); ++at) {
    const Piece& piece = **at;
    if (piece.own) continue;
    const int64_t size = piece.memory.size_bytes();
    const auto larger = std::count_if(pieces_.begin(), pieces_.end(), [&](const auto& other) {
      if (other->own || other.get() == &piece) return false;
      const int64_t its = other->memory.size_bytes();
      // Of equal ones, those that are lent stay, and then the older ones.
      if (its == size && other->lent != piece.lent) return other->lent;
      return its > size || (its == size && other->id < piece.id);
    });
    const auto wanted = std::count_if(users_.begin(), users_.end(), [&](const ScratchUser* user) {
      return !user->own_ && std::max<int64_t>(user->need_, 16) >= size;
    });
    if (larger + (coming >= size ? 1 : 0) < wanted) continue;
    if (piece.lent) {
      lent_surplus_ = true;
    } else if (found == pieces_.end() || size > (*found)->memory.size_bytes()) {
      found = at;
    }
  }
  return found;
}

std::unique_ptr<ScratchPool::Piece> ScratchPool::take_out(Pieces::iterator piece) noexcept {
  std::unique_ptr<Piece> taken = std::move(*piece);
  pieces_.erase(piece);
  return taken;
}

void ScratchPool::free_surplus(int64_t coming) noexcept {
  for (;;) {
    std::unique_ptr<Piece> surplus;
    {
      const std::lock_guard lock(mutex_);
      const auto found = find_surplus(coming);
      if (found == pieces_.end()) return;
      surplus = take_out(found);
    }
    end(std::move(surplus));
  }
}

bool ScratchPool::free_idle() noexcept {
  for (bool any = false;; any = true) {
    std::unique_ptr<Piece> idle;
    {
      const std::lock_guard lock(mutex_);
      const auto found = std::find_if(pieces_.begin(), pieces_.end(),
                                      [](const auto& piece) { return !piece->lent; });
      if (found == pieces_.end()) return any;
      idle = take_out(found);
    }
    end(std::move(idle));
  }
}

void ScratchPool::end(std::unique_ptr<Piece> piece) noexcept {
  if (piece && piece->submission != 0) device_.settle(piece->submission);
}

ScratchUser::ScratchUser(ScratchPool& pool, bool own) : pool_(pool), own_(own) { pool.add(*this); }

ScratchUser::~ScratchUser() {
  if (!vulkan_usable()) return;  // the lock may be another thread's of the parent process
  give_back();
  pool_.remove(*this);
}

void ScratchUser::borrow(int64_t bytes, const CallStream& stream) {
  give_back();
  piece_ = &pool_.lend(bytes, stream, *this);
  last_id_ = piece_->id;
}

void ScratchUser::give_back() noexcept {
  if (piece_ && vulkan_usable()) pool_.give_back(*piece_);
  piece_ = nullptr;
}

const Allocation& ScratchUser::memory() const {
  static const Allocation none;
  return piece_ ? piece_->memory : none;
}

}  // namespace tv
