"""Conversion of Python objects to messages and back; the main class is `Codec`.

The first byte of a message selects its format (numbers are little-endian):

| byte | message                                                                                          |
|------|--------------------------------------------------------------------------------------------------|
| 0xC1 | u32 n, n type tags of arrays (see `type_tags`), a msgpack value that has as many arrays          |
| 0xC7 | a pickle, protocol 5                                                                             |
| 0xC8 | 3 zero bytes, u32 n, u64 length of the body, n u64 lengths of buffers, the body (a message of    |
|      | another format), the buffers, each at the next multiple of 64 bytes from the message's start     |
| else | a msgpack value, all of whose arrays are lists                                                   |

msgpack itself never uses the byte 0xC1. With 0xC7 and 0xC8 it begins an extension type. A single array or scalar of
NumPy is an extension type, so its message has the first format of the table, with n = 0.

Messages carry values. Objects that msgpack can express (see `Codec`) are received equal and with the same types, but an
object that is referenced twice is received as two objects. Objects with cycles, or with a part that msgpack cannot
express, are pickled as a whole, which keeps identities.
"""

from aiompi.objects.codec import Codec, Segment

__all__ = ["Codec", "Segment"]
