"""How Python objects become messages.

What the first byte of a message says (numbers are little-endian):

| byte | message                                                                                          |
|------|--------------------------------------------------------------------------------------------------|
| 0xC1 | u32 n, n kinds of arrays (see `type_tags`), a msgpack value                                          |
| 0xC7 | a pickle, protocol 5                                                                             |
| 0xC8 | 3 zero bytes, u32 n, u64 length of the body, n u64 lengths of buffers, the body (a message of    |
|      | either kind above), the buffers, each at the next multiple of 64 bytes from the message's start  |
| else | a msgpack value, all of whose arrays are lists                                                   |

These bytes begin no msgpack value of ours: msgpack never uses the first, and the others are extension types.

Messages carry values. What msgpack expresses (see `Codec`) comes back equal and of the same types, but an object
that is referenced twice comes back as two. Cycles, and everything with an object in it that msgpack cannot
express, are pickled as a whole, with identities kept.
"""

from aiompi.objects.codec import Codec, Segment

__all__ = ["Codec", "Segment"]
