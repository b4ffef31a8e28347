"""Credentials of munge, the authentication service of Slurm, by its C library.

A credential is a text with a secret that only processes of one user can read, on hosts with the same key of munge. A
daemon on each host makes and reads credentials.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import byref, c_char_p, c_int, c_uint, c_void_p
from typing import Any, Final

from aiompi.errors import AuthenticationError, JobAbortedError

_UID_RESTRICTION: Final = 9


def encode(data: bytes) -> bytes:
    """Return a credential that processes of this user can decode. On each host it can be decoded only once.

    Raises:
        JobAbortedError: munge cannot be used.
    """
    library = _library()
    context = library.munge_ctx_create()
    credential = c_char_p()
    try:
        library.munge_ctx_set(context, c_int(_UID_RESTRICTION), c_uint(os.getuid()))
        _check(library, library.munge_encode(byref(credential), context, data, c_int(len(data))))
    finally:
        library.munge_ctx_destroy(context)
    return credential.value or b""


def decode(credential: bytes) -> bytes:
    """Return the data of a credential.

    Raises:
        JobAbortedError: munge cannot be used, or the credential is not for this process.
        AuthenticationError: a process of another user has made it.
    """
    library = _library()
    data, length, uid, gid = c_void_p(), c_int(), c_uint(), c_uint()
    _check(
        library,
        library.munge_decode(credential, None, byref(data), byref(length), byref(uid), byref(gid)),
    )
    if uid.value != os.getuid():
        raise AuthenticationError(f"the credential of rank 0 is from user {uid.value}")
    return ctypes.string_at(data, length.value)


def _library() -> Any:
    try:
        library = ctypes.CDLL("libmunge.so.2")
    except OSError as error:
        raise JobAbortedError(f"libmunge cannot be loaded: {error}") from None
    library.munge_ctx_create.restype = c_void_p
    library.munge_ctx_destroy.argtypes = library.munge_ctx_set.argtypes = (c_void_p,)
    library.munge_encode.argtypes = (c_void_p, c_void_p, c_char_p, c_int)
    library.munge_strerror.restype = c_char_p
    return library


def _check(library: Any, status: int) -> None:
    if status:
        raise JobAbortedError(f"munge failed: {library.munge_strerror(status).decode()}")
