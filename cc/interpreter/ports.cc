// Who may reach the server of a worker: it listens on the address that was given to it, not on all of the machine's, and
// gets only connections from whoever knows the secret of the cluster (`recgraph/distribute/ports.py`).
//
// TensorFlow's server binds to every address and takes any connection, and has no setting for either. So the functions
// of the C library by which it does so are replaced by those below, in TensorFlow's own table of imports and in no other
// library. `bind` gets the address. At `listen` the socket becomes ours: a thread accepts connections and has both sides
// prove that they know the secret, while TensorFlow polls one end of a pair of sockets, by which it is told when there is
// a connection for it. `connect` to another worker returns once the other side has proved it, too.
//
// A proof is the HMAC of both sides' random numbers, of the worker's index and of the side: it is of no use a second
// time, for another worker or as the other side's. What follows is neither encrypted nor signed. Whoever only wants to
// know whether a worker has the same secret (`recgraph/distribute/watchdog.py`) proves it as the side "probe".
//
// Threading: TensorFlow calls from many threads, of which none may hold the interpreter's lock or wait for it.
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "cc/core/sha256.h"
#include "cc/interpreter/owned.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kHello = "recgraph";
constexpr size_t kNonce = 32, kProof = 64, kIndex = 4;
constexpr std::chrono::seconds kPatience(5);  // for a whole proof
constexpr size_t kMaxUnproved = 128;          // connections; beyond these, the oldest is closed
constexpr int kMaxTold = 3;                   // refused connections that are told of one by one

// An address of IPv4 or IPv6, where an IPv4 address in the form of IPv6 is the same as in its own.
struct Address {
  std::string bytes;  // 16 of them; empty for none
  uint16_t port = 0;

  static Address Of(const sockaddr_storage& from) {
    Address made;
    if (from.ss_family == AF_INET) {
      const auto& four = reinterpret_cast<const sockaddr_in&>(from);
      made.bytes = std::string(10, '\0') + "\xff\xff" + std::string(reinterpret_cast<const char*>(&four.sin_addr), 4);
      made.port = ntohs(four.sin_port);
    } else if (from.ss_family == AF_INET6) {
      const auto& six = reinterpret_cast<const sockaddr_in6&>(from);
      made.bytes.assign(reinterpret_cast<const char*>(&six.sin6_addr), 16);
      made.port = ntohs(six.sin6_port);
    }
    return made;
  }
  static Address Of(const sockaddr* from, socklen_t length) {
    sockaddr_storage copy = {};
    std::memcpy(&copy, from, std::min<size_t>(length, sizeof(copy)));
    return Of(copy);
  }
  bool is_v4() const { return bytes.compare(0, 12, std::string(10, '\0') + "\xff\xff") == 0; }
  bool is_any() const {
    return bytes == std::string(16, '\0') || bytes == std::string(10, '\0') + "\xff\xff" + std::string(4, '\0');
  }
};

// What this process is in the cluster. Set once, before TensorFlow's server starts.
struct Cluster {
  std::string secret;
  Address own;  // to listen on; its port is that of the server
  int index = 0;
  struct Peer {
    int index;
    Address address;
  };
  std::vector<Peer> peers;  // a worker has as many as its name has addresses
};

// A socket of TensorFlow's that stands for one of ours that listens.
struct Listener {
  int socket = -1;     // ours, which listens
  int teller = -1;     // our end of the pair, whose other end TensorFlow has: a byte for each connection
  ino_t identity = 0;  // of TensorFlow's end
  sockaddr_storage address = {};
  socklen_t length = 0;
  std::deque<int> proved;  // for TensorFlow to accept
};

// A connection whose other side has not proved yet what it knows.
struct Unproved {
  int socket;
  int listener;  // the number of TensorFlow's socket
  Clock::time_point until;
  std::string received, client, server;
  bool has_replied = false;
};

struct State {
  std::mutex mutex;
  Cluster cluster;
  std::map<int, Listener> listeners;  // by the number of TensorFlow's socket
  int wake = -1;                      // a byte here has the thread look at the listeners again
  int refused = 0;
};

State& TheState() {
  static State* const state = new State;  // never destroyed: threads use it until the process is gone
  return *state;
}

std::string Bytes(const std::string& hexadecimal) {
  std::string bytes;
  for (size_t i = 0; i < hexadecimal.size(); i += 2) bytes += char(std::stoi(hexadecimal.substr(i, 2), nullptr, 16));
  return bytes;
}

// HMAC (RFC 2104) with SHA-256, as hexadecimal digits.
std::string Hmac(const std::string& secret, const std::string& text) {
  std::string inner = recgraph::Sha256(secret);  // as many bytes as a block has
  std::string outer = inner;
  for (char& byte : inner) byte ^= 0x36;
  for (char& byte : outer) byte ^= 0x5c;
  return recgraph::Sha256(outer + Bytes(recgraph::Sha256(inner + text)));
}

std::string Proof(const char* side, int index, const std::string& client, const std::string& server) {
  return Hmac(TheState().cluster.secret, side + std::to_string(index) + ":" + client + server);
}

bool IsSame(const std::string& one, const std::string& other) {  // in the same time wherever they differ
  unsigned char difference = one.size() != other.size();
  for (size_t i = 0; i < std::min(one.size(), other.size()); ++i) difference |= one[i] ^ other[i];
  return difference == 0;
}

std::string Nonce() {
  std::string made(kNonce, '\0');
  if (getrandom(made.data(), made.size(), 0) != ssize_t(made.size())) made.clear();  // and then nobody gets in
  return made;
}

// Both proofs are short: a socket that has just been opened takes them at once.
bool Send(int socket, const std::string& text) {
  return send(socket, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) == ssize_t(text.size());
}

// Receives what is missing of so many bytes and no more, since what follows is TensorFlow's. False if there is an end.
bool Receive(int socket, size_t size, std::string* received) {
  char buffer[256];
  while (received->size() < size) {
    const ssize_t count = recv(socket, buffer, std::min(size - received->size(), sizeof(buffer)), MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    if (count == 0) return false;
    received->append(buffer, count);
  }
  return true;
}

// ---- The side of the server. One thread does all of it.

enum class Progress { kWaits, kProved, kRefused, kGone };

// What a connection has come to, after something has arrived on it.
Progress Advance(Unproved* one, int index) {
  const size_t hello = kHello.size() + kNonce;
  if (!one->has_replied) {
    if (!Receive(one->socket, hello, &one->received)) {
      return one->received.empty() ? Progress::kGone : Progress::kRefused;
    }
    const size_t known = std::min(one->received.size(), kHello.size());
    if (one->received.compare(0, known, kHello.substr(0, known)) != 0) return Progress::kRefused;
    if (one->received.size() < hello) return Progress::kWaits;
    one->client = one->received.substr(kHello.size());
    one->server = Nonce();
    one->received.clear();
    one->has_replied = true;
    std::string told(kIndex, '\0');
    for (size_t i = 0; i < kIndex; ++i) told[i] = char(index >> (8 * i));
    if (one->server.empty() || !Send(one->socket, told + one->server + Proof("server", index, one->client, one->server))) {
      return Progress::kGone;
    }
  }
  if (!Receive(one->socket, kProof, &one->received)) return Progress::kRefused;
  if (one->received.size() < kProof) return Progress::kWaits;
  const auto shows = [&](const char* side) { return IsSame(one->received, Proof(side, index, one->client, one->server)); };
  if (shows("probe")) return Progress::kGone;
  return shows("client") ? Progress::kProved : Progress::kRefused;
}

class Doorkeeper {
 public:
  explicit Doorkeeper(int wake) : wake_(wake) {}

  void Run() {
    for (;;) {
      Poll();
      Forget();
      AcceptAll();
      for (auto one = unproved_.begin(); one != unproved_.end();) one = IsDone(&*one) ? unproved_.erase(one) : next(one);
    }
  }

 private:
  void Poll() {
    State& state = TheState();
    polled_.assign(1, {wake_, POLLIN, 0});
    {
      const std::lock_guard<std::mutex> lock(state.mutex);
      for (auto& [number, listener] : state.listeners) {
        polled_.push_back({listener.socket, POLLIN, 0});
        polled_.push_back({listener.teller, 0, 0});  // POLLHUP: TensorFlow has closed its end
      }
    }
    for (Unproved& one : unproved_) polled_.push_back({one.socket, POLLIN, 0});
    poll(polled_.data(), polled_.size(), unproved_.empty() ? -1 : 200);
    char buffer[64];
    if (polled_[0].revents != 0) (void)!read(wake_, buffer, sizeof(buffer));
  }

  // Closes what belongs to listeners that TensorFlow has closed.
  void Forget() {
    State& state = TheState();
    const std::lock_guard<std::mutex> lock(state.mutex);
    for (auto it = state.listeners.begin(); it != state.listeners.end();) {
      pollfd end = {it->second.teller, 0, 0};
      if (poll(&end, 1, 0) > 0 && (end.revents & (POLLHUP | POLLERR)) != 0) {
        close(it->second.socket);
        close(it->second.teller);
        for (int socket : it->second.proved) close(socket);
        it = state.listeners.erase(it);
      } else {
        ++it;
      }
    }
  }

  void AcceptAll() {
    State& state = TheState();
    const std::lock_guard<std::mutex> lock(state.mutex);
    for (auto& [number, listener] : state.listeners) {
      int socket;
      while ((socket = accept4(listener.socket, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        unproved_.push_back({socket, number, Clock::now() + kPatience, "", "", "", false});
        if (unproved_.size() > kMaxUnproved) {
          close(unproved_.front().socket);
          unproved_.pop_front();
        }
      }
    }
  }

  bool IsDone(Unproved* one) {
    State& state = TheState();
    const Progress progress = Advance(one, state.cluster.index);
    if (progress == Progress::kWaits && Clock::now() < one->until) return false;
    const std::lock_guard<std::mutex> lock(state.mutex);
    const auto listener = state.listeners.find(one->listener);
    if (progress == Progress::kProved && listener != state.listeners.end()) {
      listener->second.proved.push_back(one->socket);
      (void)!write(listener->second.teller, "", 1);
      return true;
    }
    if (progress != Progress::kGone) Tell(one->socket, &state);
    close(one->socket);
    return true;
  }

  static void Tell(int socket, State* state) {
    if (++state->refused > kMaxTold) return;
    std::fprintf(stderr, "recgraph: worker %d has refused a connection that does not know the cluster's secret%s\n",
                 state->cluster.index, state->refused == kMaxTold ? "; others are not told of" : "");
    (void)socket;
  }

  const int wake_;
  std::vector<pollfd> polled_;
  std::list<Unproved> unproved_;
};

// ---- What TensorFlow calls.

// TensorFlow's socket, if it stands for one of ours; the state's mutex is held.
Listener* Find(int number) {
  State& state = TheState();
  const auto found = state.listeners.find(number);
  struct stat status;
  if (found == state.listeners.end() || fstat(number, &status) != 0) return nullptr;
  return status.st_ino == found->second.identity ? &found->second : nullptr;
}

bool IsOfServer(int socket, const Address& address) {
  int kind = 0;
  socklen_t length = sizeof(kind);
  return address.port == TheState().cluster.own.port &&
         getsockopt(socket, SOL_SOCKET, SO_TYPE, &kind, &length) == 0 && kind == SOCK_STREAM;
}

int Bind(int socket, const sockaddr* address, socklen_t length) {
  const Address wanted = Address::Of(address, length);
  const Address& own = TheState().cluster.own;
  if (own.bytes.empty() || !wanted.is_any() || !IsOfServer(socket, wanted)) return bind(socket, address, length);
  if (address->sa_family == AF_INET6) {
    sockaddr_in6 six = {};
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(own.port);
    std::memcpy(&six.sin6_addr, own.bytes.data(), 16);
    return bind(socket, reinterpret_cast<sockaddr*>(&six), sizeof(six));
  }
  if (!own.is_v4()) {
    errno = EADDRNOTAVAIL;
    return -1;
  }
  sockaddr_in four = {};
  four.sin_family = AF_INET;
  four.sin_port = htons(own.port);
  std::memcpy(&four.sin_addr, own.bytes.data() + 12, 4);
  return bind(socket, reinterpret_cast<sockaddr*>(&four), sizeof(four));
}

int Listen(int socket, int backlog) {
  State& state = TheState();
  Listener made;
  made.length = sizeof(made.address);
  auto* const address = reinterpret_cast<sockaddr*>(&made.address);
  if (state.cluster.secret.empty() || getsockname(socket, address, &made.length) != 0 ||
      !IsOfServer(socket, Address::Of(made.address))) {
    return listen(socket, backlog);
  }
  int pair[2];
  made.socket = fcntl(socket, F_DUPFD_CLOEXEC, 0);
  if (made.socket < 0) return -1;
  if (listen(made.socket, backlog) != 0 || fcntl(made.socket, F_SETFL, O_NONBLOCK) != 0 ||
      socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0) {
    const int problem = errno;
    close(made.socket);
    errno = problem;
    return -1;
  }
  made.teller = pair[0];
  struct stat status = {};
  fstat(pair[1], &status);
  made.identity = status.st_ino;
  const std::lock_guard<std::mutex> lock(state.mutex);
  dup3(pair[1], socket, O_CLOEXEC);
  close(pair[1]);
  state.listeners[socket] = std::move(made);
  (void)!write(state.wake, "", 1);
  return 0;
}

int GetSockName(int socket, sockaddr* address, socklen_t* length) {
  State& state = TheState();
  {
    const std::lock_guard<std::mutex> lock(state.mutex);
    if (const Listener* listener = Find(socket)) {
      std::memcpy(address, &listener->address, std::min(*length, listener->length));
      *length = listener->length;
      return 0;
    }
  }
  return getsockname(socket, address, length);
}

int Accept4(int socket, sockaddr* address, socklen_t* length, int flags) {
  State& state = TheState();
  {
    const std::lock_guard<std::mutex> lock(state.mutex);
    if (Listener* listener = Find(socket)) {
      if (listener->proved.empty()) {
        errno = EAGAIN;
        return -1;
      }
      char told;
      (void)!recv(socket, &told, 1, MSG_DONTWAIT);
      const int connection = listener->proved.front();
      listener->proved.pop_front();
      if (address != nullptr) getpeername(connection, address, length);
      return connection;  // with the flags that TensorFlow asks for: it polls all of its sockets
    }
  }
  return accept4(socket, address, length, flags);
}

// ---- The side of the client.

bool WaitFor(int socket, short events, Clock::time_point until) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd one = {socket, events, 0};
    const int count = left <= 0 ? 0 : poll(&one, 1, static_cast<int>(left));
    if (count >= 0 || errno != EINTR) return count > 0;
  }
}

bool ReceiveAll(int socket, size_t size, Clock::time_point until, std::string* received) {
  while (received->size() < size) {
    if (!WaitFor(socket, POLLIN, until) || !Receive(socket, size, received)) return false;
  }
  return true;
}

// Whether the other side is one of these workers, and has been shown that this one belongs to it.
bool Prove(int socket, const std::vector<int>& indices, Clock::time_point until) {
  const std::string client = Nonce();
  std::string reply;
  if (client.empty() || !Send(socket, std::string(kHello) + client) ||
      !ReceiveAll(socket, kIndex + kNonce + kProof, until, &reply)) {
    return false;
  }
  int index = 0;
  for (size_t i = 0; i < kIndex; ++i) index |= static_cast<unsigned char>(reply[i]) << (8 * i);
  const std::string server = reply.substr(kIndex, kNonce);
  const bool knows = IsSame(reply.substr(kIndex + kNonce), Proof("server", index, client, server));
  if (!knows || std::find(indices.begin(), indices.end(), index) == indices.end()) return false;
  return Send(socket, Proof("client", index, client, server));
}

// The workers that an address may be of: a name may have got another address since it was looked up.
std::vector<int> WorkersAt(const Address& address) {
  std::vector<int> exact, of_port;
  for (const Cluster::Peer& peer : TheState().cluster.peers) {
    if (peer.address.port != address.port) continue;
    of_port.push_back(peer.index);
    if (peer.address.bytes == address.bytes) exact.push_back(peer.index);
  }
  return exact.empty() ? of_port : exact;
}

int Connect(int socket, const sockaddr* address, socklen_t length) {
  const std::vector<int> workers = WorkersAt(Address::Of(address, length));
  if (TheState().cluster.secret.empty() || workers.empty()) return connect(socket, address, length);
  const auto until = Clock::now() + kPatience;
  int problem = 0;
  socklen_t size = sizeof(problem);
  if (connect(socket, address, length) != 0) {
    if (errno != EINPROGRESS) return -1;
    if (!WaitFor(socket, POLLOUT, until)) problem = ETIMEDOUT;
    if (problem == 0) getsockopt(socket, SOL_SOCKET, SO_ERROR, &problem, &size);
  }
  if (problem == 0 && !Prove(socket, workers, until)) {
    problem = ECONNREFUSED;
    shutdown(socket, SHUT_RDWR);
  }
  errno = problem;
  return problem == 0 ? 0 : -1;
}

// ---- The table of imports of TensorFlow's library.

struct Replacement {
  const char* name;
  void* function;
};

const Replacement kReplacements[] = {
    {"bind", reinterpret_cast<void*>(Bind)},
    {"listen", reinterpret_cast<void*>(Listen)},
    {"getsockname", reinterpret_cast<void*>(GetSockName)},
    {"accept4", reinterpret_cast<void*>(Accept4)},
    {"connect", reinterpret_cast<void*>(Connect)},
};

#if defined(__x86_64__)
constexpr unsigned kSlots[] = {R_X86_64_JUMP_SLOT, R_X86_64_GLOB_DAT};
#elif defined(__aarch64__)
constexpr unsigned kSlots[] = {R_AARCH64_JUMP_SLOT, R_AARCH64_GLOB_DAT};
#else
constexpr unsigned kSlots[] = {~0u, ~0u};
#endif

// Writes to a page that the loader has made read-only, or to one that can be written.
bool Write(ElfW(Addr) slot, void* function, bool is_protected) {
  const auto page = sysconf(_SC_PAGESIZE);
  auto* const start = reinterpret_cast<void*>(slot / page * page);
  if (is_protected && mprotect(start, page, PROT_READ | PROT_WRITE) != 0) return false;
  __atomic_store_n(reinterpret_cast<void**>(slot), function, __ATOMIC_RELEASE);
  if (is_protected) mprotect(start, page, PROT_READ);
  return true;
}

// A loaded library, as far as the loader tells.
struct Loaded {
  explicit Loaded(const dl_phdr_info& info) : base(info.dlpi_addr) {
    for (int i = 0; i < info.dlpi_phnum; ++i) {
      const ElfW(Phdr)& header = info.dlpi_phdr[i];
      if (header.p_type == PT_DYNAMIC) dynamic = reinterpret_cast<const ElfW(Dyn)*>(base + header.p_vaddr);
      if (header.p_type == PT_GNU_RELRO) {
        protected_from = base + header.p_vaddr;
        protected_to = protected_from + header.p_memsz;
      }
    }
  }
  // Entry of the dynamic section: an address, of which some loaders leave out the base; or a size.
  ElfW(Addr) At(ElfW(Sxword) tag) const {
    for (const ElfW(Dyn)* entry = dynamic; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
      if (entry->d_tag == tag) return entry->d_un.d_ptr;
    }
    return 0;
  }
  template <typename Kind>
  const Kind* Table(ElfW(Sxword) tag) const {
    const ElfW(Addr) found = At(tag);
    return found == 0 ? nullptr : reinterpret_cast<const Kind*>(found < base ? found + base : found);
  }

  ElfW(Addr) base, protected_from = 0, protected_to = 0;
  const ElfW(Dyn)* dynamic = nullptr;
};

void ReplaceIn(const Loaded& library, const ElfW(Rela)* entries, size_t bytes, std::map<std::string, int>* replaced) {
  const auto* const symbols = library.Table<ElfW(Sym)>(DT_SYMTAB);
  const auto* const names = library.Table<char>(DT_STRTAB);
  for (size_t i = 0; entries != nullptr && i < bytes / sizeof(*entries); ++i) {
    const unsigned kind = ELF64_R_TYPE(entries[i].r_info);
    if (kind != kSlots[0] && kind != kSlots[1]) continue;
    const char* const name = names + symbols[ELF64_R_SYM(entries[i].r_info)].st_name;
    for (const Replacement& one : kReplacements) {
      if (std::strcmp(name, one.name) != 0) continue;
      const ElfW(Addr) slot = library.base + entries[i].r_offset;
      const bool is_protected = slot >= library.protected_from && slot < library.protected_to;
      (*replaced)[name] += Write(slot, one.function, is_protected);
    }
  }
}

int ReplaceInTensorFlow(dl_phdr_info* info, size_t, void* replaced) {
  const std::string_view path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
  if (path.find("libtensorflow_cc.so") == std::string_view::npos) return 0;
  const Loaded library(*info);
  auto* const counts = static_cast<std::map<std::string, int>*>(replaced);
  ReplaceIn(library, library.Table<ElfW(Rela)>(DT_JMPREL), library.At(DT_PLTRELSZ), counts);
  ReplaceIn(library, library.Table<ElfW(Rela)>(DT_RELA), library.At(DT_RELASZ), counts);
  return 0;
}

// ---- What Python calls.

bool Read(PyObject* pair, Address* address) {
  const char* bytes;
  Py_ssize_t size;
  int port;
  if (!PyArg_ParseTuple(pair, "y#i", &bytes, &size, &port)) return false;
  if (size != 16 && size != 0) {
    PyErr_SetString(PyExc_ValueError, "an address has 16 bytes");
    return false;
  }
  *address = {std::string(bytes, size), static_cast<uint16_t>(port)};
  return true;
}

bool Start(State* state) {
  if (state->wake >= 0) return true;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return false;
  state->wake = ends[1];
  try {
    std::thread([in = ends[0]] { Doorkeeper(in).Run(); }).detach();
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

PyObject* Guard(PyObject*, PyObject* arguments) {
  PyObject *own, *peers;
  Cluster cluster;
  const char* secret;
  Py_ssize_t size;
  if (!PyArg_ParseTuple(arguments, "O!iO!y#", &PyTuple_Type, &own, &cluster.index, &PyTuple_Type, &peers, &secret, &size)) {
    return nullptr;
  }
  cluster.secret.assign(secret, size);
  if (!Read(own, &cluster.own)) return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(peers); ++i) {
    PyObject* address;
    Cluster::Peer peer;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(peers, i), "iO!", &peer.index, &PyTuple_Type, &address) ||
        !Read(address, &peer.address)) {
      return nullptr;
    }
    cluster.peers.push_back(std::move(peer));
  }
  State& state = TheState();
  if (state.wake >= 0) {
    PyErr_SetString(PyExc_RuntimeError, "the ports of this process are guarded already");
    return nullptr;
  }
  state.cluster = std::move(cluster);
  if (!Start(&state)) return PyErr_SetFromErrno(PyExc_OSError);
  std::map<std::string, int> replaced;
  dl_iterate_phdr(ReplaceInTensorFlow, &replaced);
  return PyBool_FromLong(replaced.size() == std::size(kReplacements) &&
                         std::all_of(replaced.begin(), replaced.end(), [](const auto& one) { return one.second > 0; }));
}

PyObject* Refused(PyObject*, PyObject*) {
  State& state = TheState();
  const std::lock_guard<std::mutex> lock(state.mutex);
  return PyLong_FromLong(state.refused);
}

PyMethodDef module_methods[] = {
    {"guard", Guard, METH_VARARGS,
     "guard(own, index, peers, secret): guards the port of the server that TensorFlow is to start, once in a process.\n\n"
     "own: (address, port); 16 bytes, an IPv4 address in the form of IPv6, or none for all addresses of the machine.\n"
     "peers: a tuple of (index, (address, port)) of the workers. secret: of the cluster, bytes; none if any connection\n"
     "may be taken. Returns whether TensorFlow's library calls what has been replaced."},
    {"refused", Refused, METH_NOARGS, "refused(): how many connections did not know the secret."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_ports", "Who may reach the server of a worker.", 0, module_methods,
    nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__ports() { return PyModule_Create(&module); }
