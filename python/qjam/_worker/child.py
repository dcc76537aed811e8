"""The loop of a child interpreter: receives a call over a socket, sends its result.

A call and its result are one message each. Short bytes are inside the messages; long ones are in memory that both sides have mapped,
and messages refer to it. A *reference* has a tag for its meaning, the number of a region (0 for the message itself), an offset and a
length. Arrays in chunks and parameters are read-only views of that memory, without a copy.
"""

from __future__ import annotations

import mmap
import os
import signal
import socket
import struct
import sys
from typing import Any, Callable, Dict, List, Optional, Tuple

from qjam._worker import context, levels, loader, values
from qjam._worker.chunks import open_chunk, opener
from qjam._worker.decoded import Decoded
from qjam._worker.memory import Regions, room
from qjam._worker.raised import describe
from qjam._worker.scripts import dumps as _cloudpickle
from qjam._worker.states import States
from qjam._worker.stepping import STATE_ONLY, Object, pickle_object, run_step
from qjam.common.reducing import default_reduce

__all__ = ["describe", "open_chunk", "start"]

# Kind of call; how many mappings, regions to forget and references follow; index of the chunk; the code, and code
# that can go; number of the parameters; seed; round; step.
_HEAD = struct.Struct("<B3xIIII16s16sQQQQ")
_MAPPING = struct.Struct("<QQ")
_NUMBER = struct.Struct("<Q")
_REFERENCE = struct.Struct("<BQQq")
# Kind of answer; flags; number of references that follow.
_ANSWER = struct.Struct("<BBxxI")

# A state: its number, the version that is wanted (0: none, make it), the version that the step makes, and whether to pickle it.
_STATE_OBJECT = struct.Struct("<QQQB")

_MAP, _STEP, _MERGE, _FORGET, _ROOM, _PICKLE_STATE = 1, 2, 3, 4, 5, 6
_VALUE, _RAISED, _READY, _NEEDS_ROOM, _LACKS_STATE = 1, 2, 3, 4, 5
_IS_KEPT = 1

_MESSAGE_MAX = 1 << 16
_INLINE_MAX = 32 << 10
_REFERENCES_MAX = 512
_FDS_SPACE = socket.CMSG_SPACE(4 * 8)
_IN_MESSAGE, _IN_RESULTS = 0, 1
_NO_CODE = bytes(16)
_NO_STEP = 2**64 - 1
# Numbers from here on are those of states, and not of regions.
_FIRST_STATE = 2**63

_TABLE, _CODE, _PARAMS, _BUFFER, _HEADER, _CHUNK, _STATE, _NUMBERS, _PICKLE, _INT, _CONTENT, _OBJECT = b"*cpbhksNPiHS"
# The state, which does not stay here.
_STATE_ONLY = ord("g")
# A state that may have come from another host, with guards in its pickle.
_FOREIGN_STATE = ord("e")
_LEAF_TAGS = {ord(tag): tag for tag in "dfq"}

Part = Tuple[int, Any]
# A pickle and its buffers: bytes, or views of a region.
Stream = List[Any]


class _Call:
    """A call, as received in a message."""

    __slots__ = (
        "code",
        "params",
        "header",
        "chunk",
        "content",
        "chunk_region",
        "state",
        "is_foreign",
        "object",
        "values",
        "regions",
    )

    def __init__(self) -> None:
        self.code: Any = None
        self.params: Optional[Stream] = None
        self.header = b""
        self.chunk: Any = b""
        # The hash of the chunk's content, if it may be kept unpickled, and the region that it lies in.
        self.content = b""
        self.chunk_region = 0
        self.state: Optional[Stream] = None
        # Whether the state is read with guards.
        self.is_foreign = False
        # The object that the state is; of number 0 if there is none.
        self.object: Object = (0, 0, 0, 0)
        self.values: List[Any] = []
        # The regions that contain the parameters.
        self.regions: List[int] = []


_NO_CALL = _Call()


class Child:
    """The state of an interpreter between calls, and how it answers one."""

    def __init__(self, channel: socket.socket) -> None:
        self.channel = channel
        self.pid = os.getpid()
        self.regions = Regions()
        # Memory for long results, which the slot reads.
        self.results: Optional[mmap.mmap] = None
        self.jobs: Dict[bytes, loader.Job] = {}
        # Functions that open chunks, by the chunk's header.
        self.openers: Dict[bytes, Callable[[Any], Any]] = {}
        # The bytes before the leaves of short results, by shape.
        self.answer_heads: Dict[bytes, bytes] = {}
        # The parameters of the current round and their regions; calls of one round share them.
        self.params: Any = None
        self.params_number = 0
        self.params_regions: List[int] = []
        # List chunks that are kept unpickled.
        self.decoded = Decoded()
        # States that stay here between rounds.
        self.states = States()
        # Memory of the call that the slot will overwrite.
        self.arena = 0
        # Whether the user's code is running: only then an interrupt applies to it.
        self.is_inside = False
        self.was_interrupted = False

    def interrupted(self, _signal: int, _frame: Any) -> None:
        """The running call has been cancelled."""
        if self.is_inside:
            self.is_inside = False
            self.was_interrupted = True
            raise KeyboardInterrupt

    def serve(self) -> None:
        """Answers calls until the slot closes the socket."""
        receive, answer = self.channel.recvmsg, self.answer
        while True:
            message, ancillary, _, _ = receive(_MESSAGE_MAX, _FDS_SPACE, socket.MSG_CMSG_CLOEXEC)
            if not message:
                return
            modules = len(sys.modules)
            answer(message, _descriptors(ancillary) if ancillary else [])
            if self.was_interrupted:
                self.was_interrupted = False
                if len(sys.modules) != modules:
                    # Half-imported modules would be found by the next import, so the slot starts another interpreter.
                    return

    def receive(self) -> Tuple[bytes, List[int]]:
        """The next message, and the file descriptors received with it."""
        message, ancillary, _, _ = self.channel.recvmsg(_MESSAGE_MAX, _FDS_SPACE, socket.MSG_CMSG_CLOEXEC)
        return message, _descriptors(ancillary) if ancillary else []

    def answer(self, message: bytes, fds: List[int]) -> None:
        """Executes a call and sends the result."""
        kind, mappings, gone, count, chunk, code, dropped, params_number, seed, round_number, step = (
            _HEAD.unpack_from(message)
        )
        at = _HEAD.size
        if mappings or gone:
            at = self.change_mappings(message, fds[:mappings], gone)
        if kind == _FORGET:
            return
        if dropped != _NO_CODE:
            self.jobs.pop(dropped, None)
        self.arena = 0
        parts: Optional[List[Part]] = None
        dumped = state = None
        call = _NO_CALL
        try:
            call = self.read(message, at, count)
            if call.object[1] and self.states.get(*call.object[:2]) is None:
                call = _NO_CALL
                self.send(_LACKS_STATE, [])
                return
            context.now.where = seed, round_number, chunk, None if step == _NO_STEP else step
            self.is_inside = True
            dumped, state = self.run(kind, code, params_number, round_number, chunk, call)
            self.is_inside = False
        except BaseException as raised:
            self.is_inside = False
            parts = _told(raised)
            # The slot sends them again, because it is unknown how far this got.
            self.jobs.pop(code, None)
            self.states.forget(call.object[0])
            self.params, self.params_number, self.params_regions = None, 0, []
        call = _NO_CALL
        if os.getpid() != self.pid:
            # User code has forked and the child returned here; only the parent may answer.
            os._exit(0)
        _flush()
        if parts is not None:
            self.send(_RAISED, parts)
        elif state is not None or self.arena or not self.send_numbers(dumped):
            parts = _parts(dumped, state)
            dumped = state = None
            self.send(_VALUE, parts)

    def change_mappings(self, message: bytes, fds: List[int], gone: int) -> int:
        """Maps new regions and forgets old ones; returns the position in the message after that."""
        at = _HEAD.size
        try:
            for fd in fds:
                number, length = _MAPPING.unpack_from(message, at)
                self.regions.add(number, fd, length)
                at += _MAPPING.size
        except (OSError, ValueError, MemoryError) as error:
            # The slot assumes that it is mapped, so only a new interpreter can recover.
            self.send(_RAISED, _told(error))
            sys.exit(1)
        for _ in range(gone):
            self.forget(_NUMBER.unpack_from(message, at)[0])
            at += _NUMBER.size
        return at

    def forget(self, number: int) -> None:
        """Forgets a region, and parameters in it, whose round has ended; or a state."""
        if number >= _FIRST_STATE:
            self.states.forget(number)
            return
        self.regions.forget(number)
        self.decoded.forget(number)
        if number in self.params_regions:
            self.params, self.params_number, self.params_regions = None, 0, []

    def read(self, message: bytes, at: int, count: int) -> _Call:
        """Resolves the references of a call."""
        call = _Call()
        table: Any = message[at : at + count * _REFERENCE.size]
        regions = self.regions.by_number
        if count == 1 and table[0] == _TABLE:
            _, number, offset, length = _REFERENCE.unpack(table)
            table = memoryview(regions[number])[offset : offset + length]
        buffers: List[Any] = []
        view: Any
        for tag, number, offset, length in _REFERENCE.iter_unpack(table):
            if tag == _INT:
                buffers.append(("i", length))
                continue
            if number == _IN_MESSAGE:
                view = message[offset : offset + length]
            else:
                view = memoryview(regions[number])[offset : offset + length]
                is_params = tag == _PARAMS or (tag == _BUFFER and buffers is call.params)
                if number & 1:
                    self.arena = number
                    if is_params:
                        # Copied: they stay for other calls, and a view would keep the slot from overwriting the memory.
                        view = bytes(view)
                elif is_params:
                    call.regions.append(number)
            if tag == _HEADER:
                call.header = bytes(view)
            elif tag == _CHUNK:
                call.chunk = view
                call.chunk_region = number
            elif tag == _CONTENT:
                call.content = bytes(view)
            elif tag == _PARAMS:
                call.params = buffers = [view]
            elif tag == _BUFFER:
                buffers.append(view)
            elif tag == _CODE:
                call.code = view
            elif tag == _OBJECT:
                call.object = _STATE_OBJECT.unpack(view)
            elif tag == _STATE or tag == _FOREIGN_STATE:
                call.state = buffers = [view]
                call.is_foreign = tag == _FOREIGN_STATE
            elif tag == _NUMBERS or tag == _PICKLE:
                buffers = []
                call.values.append((chr(tag), view, buffers))
            else:
                buffers.append((_LEAF_TAGS[tag], bytearray(view)))
        return call

    def run(
        self, kind: int, code: bytes, params_number: int, round_number: int, index: int, call: _Call
    ) -> Tuple[values.Parts, Optional[values.Parts]]:
        """Runs the user's code; returns its result, and its state if that was pickled."""
        job = self.jobs.get(code)
        if job is None:
            if call.code is None:
                raise RuntimeError("the interpreter was not given the code of a call")
            job = self.jobs[code] = loader.load(bytes(call.code))
        # Pickles may name its modules.
        job.enter()
        summable = job.reduce is None
        if kind == _MERGE:
            left, right = (values.load(_writable(parts)) for parts in call.values)
            return values.dump((job.reduce or default_reduce)(left, right), summable, _cloudpickle), None
        if kind == _PICKLE_STATE:
            return values.dump(0, True), pickle_object(self.states, call.object, _cloudpickle)
        if params_number != self.params_number:
            if call.params is None:
                raise RuntimeError("the interpreter was not given the parameters of a call")
            self.params = values.unpack(call.params[0], call.params[1:])
            self.params_number = params_number
            self.params_regions = call.regions
        if kind == _MAP:
            chunk = self.open(call, code, job, round_number, None)
            return values.dump(job.mapfunc(self.params, chunk), summable, _cloudpickle), None
        chunk = self.open(call, code, job, round_number, index)
        # A state may keep parameters, and change them in a later round: no two states may have the same ones.
        params, self.params, self.params_number, self.params_regions = self.params, None, 0, []
        given = None if call.state is None else (call.state, call.is_foreign)
        return run_step(self.states, job, call.object, given, params, chunk, _cloudpickle)

    def open(self, call: _Call, code: bytes, job: loader.Job, round_number: int, index: Optional[int]) -> Any:
        """The chunk of a call; `index` is that of a chunk with a state, which may keep items of it."""
        opener = self.openers.get(call.header) or self.opener(call.header)
        if not call.content:
            return opener(call.chunk)
        # The second number of a pickled chunk counts the arrays beside the pickle, which stay where they lie.
        region = call.chunk_region if call.chunk[8:16] != bytes(8) else 0
        if region & 1:
            return opener(call.chunk)
        view, size = call.chunk, len(call.chunk)
        # Items may be of classes of the user's modules, which are others after an edit.
        key = call.content, job.modules, index
        return self.decoded.open(key, size, region, code, round_number, lambda: opener(view))

    def opener(self, header: bytes) -> Callable[[Any], Any]:
        """The function that opens a chunk, from the text with its kind, element type and shape."""
        kind, dtype, shape = header.decode().split("\0")
        made = opener(kind, dtype, tuple(int(length) for length in shape.split(",") if length))
        if len(self.openers) > 256:
            self.openers.clear()
        self.openers[header] = made
        return made

    def send_numbers(self, dumped: Any) -> bool:
        """Sends a short result of numbers; returns False for other results."""
        kind, shape, leaves = dumped
        if kind != "N":
            return False
        head = self.answer_heads.get(shape)
        if head is None:
            lengths = [0 if tag == "i" else _length(leaf) for tag, leaf in leaves]
            if any(tag == "i" for tag, _ in leaves) or sum(lengths) > _INLINE_MAX - len(shape) or len(leaves) > 16:
                return False
            if len(self.answer_heads) > 256:
                self.answer_heads.clear()
            at = _ANSWER.size + (len(leaves) + 1) * _REFERENCE.size
            table = [_ANSWER.pack(_VALUE, 0, len(leaves) + 1), _REFERENCE.pack(_NUMBERS, _IN_MESSAGE, at, len(shape))]
            at += len(shape)
            for (tag, _), length in zip(leaves, lengths):
                table.append(_REFERENCE.pack(ord(tag), _IN_MESSAGE, at, length))
                at += length
            head = self.answer_heads[shape] = b"".join([*table, shape])
        if len(leaves) == 1:
            self.channel.send(b"".join((head, leaves[0][1])))
        else:
            self.channel.send(b"".join([head, *[leaf for _, leaf in leaves]]))
        return True

    def send(self, answer: int, parts: List[Part]) -> None:
        """Sends an answer: a short one in the message, a long one through memory."""
        lengths = [0 if tag == _INT else part.nbytes if hasattr(part, "nbytes") else _length(part) for tag, part in parts]
        count = len(parts)
        if sum(lengths) > _INLINE_MAX or count > _REFERENCES_MAX:
            self.send_by_memory(answer, parts, lengths)
            return
        at = _ANSWER.size + count * _REFERENCE.size
        fields = [answer, 0, count]
        message: List[Any] = [b""]
        for (tag, part), length in zip(parts, lengths):
            if tag == _INT:
                fields += (tag, 0, 0, part)
            else:
                fields += (tag, _IN_MESSAGE, at, length)
                message.append(part)
                at += length
        parts.clear()
        if self.arena:
            # A variable of its own would keep a reference to the last part.
            part = None
            message[1:] = [b"".join(message)]
            fields[1] = self.kept()
        message[0] = _answer_head(count).pack(*fields)
        self.channel.send(b"".join(message))

    def send_by_memory(self, answer: int, parts: List[Part], lengths: List[int]) -> None:
        """Sends an answer whose bytes are in memory that the slot has mapped."""
        end = 0
        offsets = []
        for length in lengths:
            offsets.append(end)
            end += -(-length // 64) * 64
        results = self.reserve(end + len(parts) * _REFERENCE.size)
        table: List[bytes] = []
        for (tag, part), offset, length in zip(parts, offsets, lengths):
            if tag == _INT:
                table.append(_REFERENCE.pack(tag, 0, 0, part))
                continue
            if length:
                results[offset : offset + length] = part
            table.append(_REFERENCE.pack(tag, _IN_RESULTS, offset, length))
        if len(table) > _REFERENCES_MAX:
            written = b"".join(table)
            results[end : end + len(written)] = written
            table = [_REFERENCE.pack(_TABLE, _IN_RESULTS, end, len(written))]
        part = None
        parts.clear()
        self.channel.send(b"".join([_ANSWER.pack(answer, self.kept(), len(table)), *table]))

    def reserve(self, length: int) -> mmap.mmap:
        """Memory for results of this size; requested from the slot if there is too little."""
        if self.results is None or len(self.results) < length:
            self.results = None
            self.channel.send(_ANSWER.pack(_NEEDS_ROOM, 0, 1) + _REFERENCE.pack(_INT, 0, 0, length))
            while self.results is None:
                message, fds = self.receive()
                if not message:
                    sys.exit(0)
                if message[0] == _ROOM:
                    self.results = room(fds[0], _MAPPING.unpack_from(message, _HEAD.size)[1])
                else:
                    # A notice about a released region; nothing else arrives before the answer.
                    self.answer(message, fds)
        return self.results

    def kept(self) -> int:
        """Whether user code still refers to memory that the slot will overwrite."""
        return _IS_KEPT if self.arena and self.regions.is_used(self.arena) else 0


def _length(part: Any) -> int:
    return memoryview(part).nbytes


_answer_heads: Dict[int, struct.Struct] = {}


def _answer_head(count: int) -> struct.Struct:
    """Head and references of a short answer, as one struct."""
    head = _answer_heads.get(count)
    if head is None:
        head = _answer_heads[count] = struct.Struct(_ANSWER.format + "BQQq" * count)
    return head


def _descriptors(ancillary: List[Tuple[int, int, bytes]]) -> List[int]:
    fds: List[int] = []
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.extend(struct.unpack(f"{len(data) // 4}i", data))
    return fds


def _writable(parts: Any) -> Any:
    """A value for a reduction, which may modify its arguments."""
    kind, head, rest = parts
    return kind, head, rest if kind == "N" else [bytearray(buffer) for buffer in rest]


def _parts(dumped: Any, state: Any) -> List[Part]:
    kind, head, rest = dumped
    parts: List[Part]
    if kind == "P":
        parts = [(_PICKLE, head), *((_BUFFER, buffer) for buffer in rest)]
    else:
        parts = [(_NUMBERS, head), *((ord(tag), leaf) for tag, leaf in rest)]
    if state is not None:
        kind, stream, buffers = state
        parts.append((_STATE_ONLY if kind == STATE_ONLY else _STATE, stream))
        parts.extend((_BUFFER, buffer) for buffer in buffers)
    return parts


def _told(error: BaseException) -> List[Part]:
    try:
        message, place, trace, pickled = describe(error, _cloudpickle)
    except BaseException as another:
        message, place, trace, pickled = f"{type(error).__name__}, which cannot be shown: {another!r}", None, "", b""
    texts = [text.encode("utf-8", "replace") for text in (message, place or "", trace)]
    return list(zip(b"mwtx", [*texts, pickled]))


def _flush() -> None:
    # The user's code may have put something else there, or closed it.
    try:
        sys.stdout.flush()
    except Exception:
        pass
    try:
        sys.stderr.flush()
    except Exception:
        pass


def start(channel: socket.socket, path: List[str], support: bytes) -> None:
    """Serves the slot at the other end until it closes the socket."""
    # Modules in the worker's start folder are not importable, unless the folder is named.
    sys.path[:] = path + [folder for folder in sys.path if folder and folder not in path]
    sys.argv[:] = ["qjam"]
    for stream in (sys.stdout, sys.stderr):
        # Line by line, so that the last lines of a dying interpreter are reported.
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    loader.install_support(support)
    levels.install()
    child = Child(channel)
    signal.signal(signal.SIGINT, child.interrupted)
    channel.send(_ANSWER.pack(_READY, 0, 0))
    child.serve()
