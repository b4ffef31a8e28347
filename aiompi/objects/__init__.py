"""Conversion of Python objects to messages and back; the main class is `Codec`.

The first byte of a message selects its format (numbers are little-endian):

| byte | message                                                                                          |
|------|--------------------------------------------------------------------------------------------------|
| 0xC1 | u32 n, n type tags of arrays (see `type_tags`), a msgpack value                                  |
| 0xC7 | a pickle, protocol 5                                                                             |
| 0xC8 | 3 zero bytes, u32 n, u64 length of the body, n u64 lengths of buffers, the body (a message of    |
|      | a format above), the buffers, each at the next multiple of 64 bytes from the message's start     |
| else | a msgpack value, all of whose arrays are lists                                                   |

No msgpack value in a message begins with these bytes: msgpack never uses the first, and the others are extension types.

Messages carry values. Objects that msgpack can express (see `Codec`) are received equal and with the same types, but an
object that is referenced twice is received as two objects. Cyclic objects, and objects that contain anything msgpack
cannot express, are pickled as a whole, which keeps identities.
"""

from aiompi.objects.codec import Codec, Segment

__all__ = ["Codec", "Segment"]
