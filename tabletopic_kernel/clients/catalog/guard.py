"""What a table or a REST catalog's answer may choose: no code, and no place for this person's keys.

PyIceberg merges a table's properties over the catalog's when it opens the table's files, and imports classes
that they name; a REST catalog's configuration goes over this person's own, too. So anybody who can set
a table's property would run code here, or receive keys. ``pyiceberg_seams``' catalogs apply these rules.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyiceberg.io import ADLS_SAS_TOKEN, ARROW_FILE_IO, FSSPEC_FILE_IO, PY_IO_IMPL, S3_SIGNER

from tabletopic_kernel.model.errors import SettingsError, Trouble
from tabletopic_kernel.model.redact import is_secret
from tabletopic_kernel.model.settings.table_properties import names_class

# Prefixes of a store's properties, which a catalog may lend with a table, and keys that replace this
# person's: without them, a client looks for those of the environment.
_STORES = {
    ("s3.", "client."): ("s3.access-key-id", "client.access-key-id"),
    ("gcs.",): ("gcs.oauth2.token",),
    ("adls.",): ("adls.sas-token", "adls.account-key"),
    ("hf.",): ("hf.token",),
}
STORAGE_PREFIXES = tuple(prefix for store in _STORES for prefix in store)
# Where a store is.
_PLACE = re.compile(r"^(?!s3\.signer).*(?:endpoint|host|authority|scheme|proxy|account-name)")
# How this person logs in to the catalog, and checks who answers.
_LOGIN = re.compile(r"(auth|ssl|s3\.signer|rest\.sig)|(oauth2-server-uri|credential)$")


def own_choices(own: Mapping[str, Any], served: Mapping[str, Any]) -> dict[str, Any]:
    """The properties of a REST catalog that has answered with ``served``, without what only ``own`` choose.

    >>> own_choices({"uri": "u"}, {"uri": "v", "auth": {"type": "custom"}, "py-io-impl": "os.system"})
    {'uri': 'v'}
    """
    chosen = {name: value for name, value in served.items() if not _is_own(name, value)}
    return chosen | {name: value for name, value in own.items() if _is_own(name, served.get(name))}


def _is_own(name: str, value: Any) -> bool:
    if name == PY_IO_IMPL and value in (ARROW_FILE_IO, FSSPEC_FILE_IO):
        return False
    return names_class(name) or _LOGIN.match(name) is not None


def with_lent(own: Mapping[str, Any], lent: Mapping[str, Any]) -> dict[str, Any]:
    """A table's storage properties with what the catalog lends; SettingsError: own keys would go there."""
    files, loan = dict(own), {name: value for name, value in lent.items() if not names_class(name)}
    if (choice := lent.get(PY_IO_IMPL)) in (ARROW_FILE_IO, FSSPEC_FILE_IO):
        loan[PY_IO_IMPL] = choice
    signs = files.get(PY_IO_IMPL) == FSSPEC_FILE_IO or loan.get(PY_IO_IMPL) == FSSPEC_FILE_IO
    for store, keys in _STORES.items():
        names = [name for name in loan if name.startswith(store)]
        lends = any(loan[name] and (name in keys or name.startswith(f"{ADLS_SAS_TOKEN}.")) for name in names)
        if lends or (signs and S3_SIGNER in names):  # then the catalog signs each request
            files = {name: files[name] for name in files if not (name.startswith(store) and is_secret(name))}
            continue
        for name in names:
            if not _PLACE.search(name) or own.get(name) == loan[name]:
                continue
            if name not in own:
                raise SettingsError(
                    Trouble(
                        f"names {name} {loan[name]} for the table and lends no keys for it",
                        f"if yours may go there, set {name} in {{section}}",
                        "the catalog",
                    )
                )
            del loan[name]
    return files | loan
